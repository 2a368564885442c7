package ensemble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Messages of servers are checked before the library decodes them: on a wrong length it
// panics, or allocates memory without limit.

// Kinds of requests.
const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opSetData         = 5
	opSync            = 9
	opGetChildren     = 12
	opCheck           = 13
	opMulti           = 14
	opCreateContainer = 19
)

// xidEvent is the xid of messages that tell of watches.
const xidEvent = -1

// maxHandshake limits the length of a connect response, which has 41 bytes.
const maxHandshake = 256

// readMessage reads one whole message, checks it and makes it available to Read.
func (c *conn) readMessage() error {
	most, check := uint32(maxReply), c.checkReply
	if !c.accepted {
		most, check = maxHandshake, c.checkHandshake
	}
	frame, err := readFrame(c.reader, most)
	if err != nil {
		return err
	}
	c.lastRead.Store(int64(time.Since(c.opened)))
	if err := check(parser{frame[4:]}); err != nil {
		return err
	}
	c.checked = frame
	return nil
}

// MaxLength is the greatest length of a session that a server may grant.
const MaxLength = time.Hour

// connectResponse reads a connect response: version, length in milliseconds, session id, password. The id is 0 if
// the session has expired.
func (p *parser) connectResponse() (id int64, length time.Duration, password []byte, err error) {
	_, ok := p.int()
	millis, ok2 := p.int()
	id, ok3 := p.long()
	n, ok4 := p.int()
	password, ok5 := p.take(int(n))
	length = time.Duration(millis) * time.Millisecond
	switch {
	case !ok || !ok2 || !ok3 || !ok4 || !ok5:
		err = errMalformed
	case id != 0 && (length < 10*time.Millisecond || length > MaxLength):
		err = fmt.Errorf("the server grants a session of %v", length) // the library would crash
	}
	return id, length, password, err
}

// checkHandshake handles the connect response. What it says is known before the library sends a request in the
// session.
func (c *conn) checkHandshake(p parser) error {
	id, length, _, err := p.connectResponse()
	if err != nil {
		return err
	}
	c.accepted = true
	c.handshake.Stop()
	c.s.change(func() {
		if s := c.s; id != 0 && s.conn == c {
			if s.accepted.ID != id {
				s.accepted = Connection{ID: id, Began: c.connectSent}
			}
			s.accepted.Length, s.accepted.Sent = length, c.connectSent
		}
	})
	return nil
}

// checkReply checks an answer or a watch event.
func (c *conn) checkReply(p parser) error {
	xid, ok := p.int()
	_, ok2 := p.long()
	failed, ok3 := p.int()
	if !ok || !ok2 || !ok3 {
		return errMalformed
	}
	c.mu.Lock()
	op, known := c.kinds[xid]
	delete(c.kinds, xid)
	c.mu.Unlock()
	if xid == xidEvent {
		_, ok := p.int()
		_, ok2 := p.int()
		if !ok || !ok2 || !p.skipText() {
			return errMalformed
		}
	} else if known && failed == 0 && !p.skipReply(op) {
		return errMalformed
	}
	return nil
}

var errMalformed = errors.New("it is malformed")

// A parser reads a message.
type parser struct{ rest []byte }

func (p *parser) take(n int) ([]byte, bool) {
	if n < 0 || n > len(p.rest) {
		return nil, false
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b, true
}

func (p *parser) int() (int32, bool) {
	b, ok := p.take(4)
	if !ok {
		return 0, false
	}
	return int32(binary.BigEndian.Uint32(b)), true
}

func (p *parser) long() (int64, bool) {
	b, ok := p.take(8)
	if !ok {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(b)), true
}

// skipText skips a length and as many bytes.
func (p *parser) skipText() bool {
	n, ok := p.int()
	if ok {
		_, ok = p.take(int(n))
	}
	return ok
}

// skipData skips a text that may be missing.
func (p *parser) skipData() bool {
	if n, ok := (&parser{p.rest}).int(); ok && n < 0 {
		p.take(4)
		return true
	}
	return p.skipText()
}

// skipTexts skips a number and as many texts.
func (p *parser) skipTexts() bool {
	n, ok := p.int()
	for ok = ok && n >= 0 && int(n) <= len(p.rest)/4; ok && n > 0; n-- {
		ok = p.skipText()
	}
	return ok
}

func (p *parser) skipStat() bool {
	_, ok := p.take(68)
	return ok
}

// skipReply skips the answer to a request of a kind.
func (p *parser) skipReply(op int32) bool {
	switch op {
	case opCreate, opCreateContainer, opSync:
		return p.skipText()
	case opExists, opSetData:
		return p.skipStat()
	case opGetData:
		return p.skipData() && p.skipStat()
	case opGetChildren:
		return p.skipTexts() && p.skipStat()
	case opMulti:
		return p.skipMultiReply()
	}
	return true // the library reads nothing
}

// skipMultiReply skips the answers to the writes of a multi.
func (p *parser) skipMultiReply() bool {
	for {
		op, ok := p.int()
		done, ok2 := p.take(1)
		_, ok3 := p.int()
		switch {
		case !ok || !ok2 || !ok3:
			return false
		case done[0] != 0:
			return true
		case op == -1: // an error
			_, ok = p.int()
		case op == opCreate:
			ok = p.skipText()
		case op == opSetData:
			ok = p.skipStat()
		case op != opCheck && op != opDelete:
			ok = false
		}
		if !ok {
			return false
		}
	}
}
