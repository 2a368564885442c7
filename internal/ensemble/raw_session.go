package ensemble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A rawSession is a session on a connection that the library does not know. It shows what
// one server answers.
type rawSession struct {
	net.Conn
	id       int64
	password []byte
	length   time.Duration // as granted by the server
	readOnly bool
}

// errUnknownSession says that a server does not know a session.
var errUnknownSession = errors.New("the session is not known there")

// openRawSession opens a session of about this length at one server, or lets that server
// take over the known session of another server.
func (a *Access) openRawSession(ctx context.Context, server string, length time.Duration, known *rawSession) (g *rawSession, err error) {
	c, err := a.dialRaw(ctx, server)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	g = &rawSession{Conn: c, password: make([]byte, 16)}
	if known != nil {
		g.id, g.password = known.id, known.password
	}
	// A ConnectRequest: version, last zxid, timeout, session, password, and that a server
	// without a majority may answer.
	body := binary.BigEndian.AppendUint32(nil, 0)
	body = binary.BigEndian.AppendUint64(body, 0)
	body = binary.BigEndian.AppendUint32(body, uint32(min(length.Milliseconds(), 1<<31-1)))
	body = binary.BigEndian.AppendUint64(body, uint64(g.id))
	body = binary.BigEndian.AppendUint32(body, uint32(len(g.password)))
	body = append(append(body, g.password...), 1)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return nil, err
	}
	answer, err := readFrame(c, maxHandshake)
	if err != nil {
		return nil, fmt.Errorf("it does not accept a session: it has no majority, or is just starting: %w", err)
	}
	p := parser{answer[4:]}
	if g.id, g.length, g.password, err = p.connectResponse(); err == nil && g.id == 0 {
		err = errUnknownSession
	}
	flag, _ := p.take(1)
	g.readOnly = len(flag) > 0 && flag[0] != 0
	return g, err
}

// end closes the session.
func (g *rawSession) end() {
	defer g.Close()
	g.SetDeadline(time.Now().Add(askLimit))
	const closeSession = -11
	request := binary.BigEndian.AppendUint32(nil, 8)
	request = binary.BigEndian.AppendUint32(request, 1)
	kind := int32(closeSession)
	request = binary.BigEndian.AppendUint32(request, uint32(kind))
	if _, err := g.Write(request); err == nil {
		io.Copy(io.Discard, io.LimitReader(g, 1000)) // until the server closes the connection
	}
}

// fourLetterWord sends a server one of its four-letter commands.
func (a *Access) fourLetterWord(ctx context.Context, server, word string) (string, error) {
	c, err := a.dialRaw(ctx, server)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(c, 16<<10))
	return string(text), err
}

// dialRaw connects to one server, until ctx ends.
func (a *Access) dialRaw(ctx context.Context, server string) (net.Conn, error) {
	c, err := a.Dial(ctx, server, askLimit)
	if err != nil {
		return nil, err
	}
	if at, ok := ctx.Deadline(); ok {
		c.SetDeadline(at)
	}
	return c, nil
}
