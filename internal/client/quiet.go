package client

import "net"

// A quietConn breaks as if no message had come in time: go-redis prints other errors to stderr.
type quietConn struct{ net.Conn }

// Quiet returns dial with connections that break as if no message had come in time.
func Quiet(dial Dial) Dial {
	return wrapping(dial, func(c net.Conn) net.Conn { return quietConn{c} })
}

func (c quietConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		err = quietError{err}
	}
	return n, err
}

// Write says nothing of an error: the next Read does, which would wait for ever if SUBSCRIBE was not sent.
func (c quietConn) Write(b []byte) (int, error) {
	if _, err := c.Conn.Write(b); err != nil {
		c.Close()
	}
	return len(b), nil
}

type quietError struct{ error }

func (e quietError) Unwrap() error { return e.error }
func (quietError) Timeout() bool   { return true }
func (quietError) Temporary() bool { return false }
