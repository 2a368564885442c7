package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// What servers say is checked before the library decodes it, which panics, or takes
// memory without bounds, when a length in it is wrong.

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
	opSetAuth         = 100
)

// Numbers of replies that answer no request.
const (
	xidEvent = -1
	xidPing  = -2
)

// maxHello is the greatest length of a server's greeting: it has 41 bytes.
const maxHandshake = 256

// frame reads one whole message, checks it, and makes it ready to be read.
func (l *connection) readMessage() error {
	var head [4]byte
	if _, err := io.ReadFull(l.reader, head[:]); err != nil {
		return err
	}
	n, most := binary.BigEndian.Uint32(head[:]), uint32(maxReply)
	if !l.handshakeDone {
		most = maxHandshake
	}
	if n > most {
		return fmt.Errorf("it has %d bytes, or is no message of ZooKeeper", n)
	}
	message := make([]byte, 4+n)
	copy(message, head[:])
	if _, err := io.ReadFull(l.reader, message[4:]); err != nil {
		return err
	}
	l.lastRead.Store(int64(time.Since(l.opened)))
	check := l.checkReply
	if !l.handshakeDone {
		check = l.checkHandshake
	}
	if err := check(parser{message[4:]}); err != nil {
		return err
	}
	l.checked = message
	return nil
}

// longestSession is what is believed of a server, and asked for.
const maxSessionLength = time.Hour

// greeting takes in what a server says first: version, time-out in milliseconds,
// session id, password.
func (l *connection) checkHandshake(p parser) error {
	_, ok := p.int()
	millis, ok2 := p.int()
	id, ok3 := p.long()
	if !ok || !ok2 || !ok3 || !p.skipText() {
		return errMalformed
	}
	length := time.Duration(millis) * time.Millisecond
	if id != 0 && (length < 10*time.Millisecond || length > maxSessionLength) {
		return fmt.Errorf("the server grants a session of %v", length) // the library would not survive it
	}
	l.handshakeDone = true
	l.s.noteHandshake(id, length, l.connectSent)
	return nil
}

// reply checks an answer, or an event of a watch.
func (l *connection) checkReply(p parser) error {
	xid, ok := p.int()
	_, ok2 := p.long()
	failed, ok3 := p.int()
	if !ok || !ok2 || !ok3 {
		return errMalformed
	}
	l.mu.Lock()
	op, asked := l.pending[xid]
	delete(l.pending, xid)
	l.mu.Unlock()
	if xid == xidEvent {
		_, ok := p.int()
		_, ok2 := p.int()
		if !ok || !ok2 || !p.skipText() {
			return errMalformed
		}
	} else if asked && failed == 0 && !p.skipReply(op) {
		return errMalformed
	}
	return nil
}

var errMalformed = errors.New("it is malformed")

// A parser reads along in a message.
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

// text passes over a length and so many bytes.
func (p *parser) skipText() bool {
	n, ok := p.int()
	if ok {
		_, ok = p.take(int(n))
	}
	return ok
}

// data is text, which may be missing.
func (p *parser) skipData() bool {
	if n, ok := (&parser{p.rest}).int(); ok && n < 0 {
		p.take(4)
		return true
	}
	return p.skipText()
}

// texts passes over a number, and so many texts.
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

// answer passes over the answer to a request of a kind.
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

// answers passes over the answers to the writes of a multi.
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
