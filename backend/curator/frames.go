package curator

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Both sides send frames: a length of four bytes, and as many bytes. Neither a write of the
// library nor a read from the network need be one frame: it may be a part, or several.
//
// A request is sent when its frame is whole, so later than the call that makes it has noted,
// never earlier. What answers prove about the session (session_lifetime.go) stays true if
// requests are sent later than noted.

// frameSize returns the size of the frame that begins with head. Its text has at most most
// bytes.
func frameSize(head []byte, most uint32) (int, error) {
	n := binary.BigEndian.Uint32(head)
	if n > most {
		return 0, fmt.Errorf("it has %d bytes, or is not a ZooKeeper message", n)
	}
	return 4 + int(n), nil
}

// readFrame reads a whole frame.
func readFrame(r io.Reader, most uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size, err := frameSize(head[:], most)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, size)
	copy(frame, head[:])
	_, err = io.ReadFull(r, frame[4:])
	return frame, err
}

// A frameWriter passes on what is written to it as whole frames, which send may change.
type frameWriter struct {
	most uint32
	send func(frame []byte) error
	rest []byte // written, but not yet a whole frame
}

func (w *frameWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for len(w.rest) >= 4 {
		size, err := frameSize(w.rest, w.most)
		if err != nil {
			return 0, err
		}
		if len(w.rest) < size {
			return len(p), nil
		}
		frame := w.rest[:size:size]
		w.rest = w.rest[size:]
		if err := w.send(frame); err != nil {
			return 0, err
		}
	}
	if len(w.rest) == 0 {
		w.rest = nil // a large request need not stay in memory
	}
	return len(p), nil
}
