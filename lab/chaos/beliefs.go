//go:build linux

package chaos

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/go-election/go-election/conformance"
)

// A Board is a file that a process shares with the harness. It has the belief of the
// process about each of its elections, and survives the process.
type Board struct{ file *os.File }

// A belief is the current leadership of a process, as sampled. A zero term means none.
type belief struct {
	Term     uint64
	From, To time.Duration // of the first and the last sample
}

// openBoard creates or opens a board.
func openBoard(name string) (*Board, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	return &Board{f}, err
}

// show replaces the belief about an election.
func (b *Board) show(election int, held belief) {
	text, err := binary.Append(nil, binary.NativeEndian, held)
	if err == nil {
		_, err = b.file.WriteAt(text, int64(election*len(text)))
	}
	if err != nil {
		panic(fmt.Errorf("write a belief: %w", err))
	}
}

// belief returns the belief about an election, or none if none was shown.
func (b *Board) belief(election int) (held belief) {
	text := make([]byte, binary.Size(held))
	if _, err := b.file.ReadAt(text, int64(election*len(text))); err == nil {
		binary.Decode(text, binary.NativeEndian, &held)
	}
	return held
}

// entry is the line of the history that says so.
func (b belief) entry(process, election string) conformance.Entry {
	return conformance.Entry{Process: process, Election: election, Kind: conformance.Believed,
		Term: b.Term, From: b.From, To: b.To}
}

// ok reports whether there is a belief: it was sampled twice.
func (b belief) ok() bool { return b.Term > 0 && b.To >= b.From }

// leads reports whether the process held the belief at some time after since.
func (b belief) leads(since time.Duration) bool { return b.ok() && b.To > since }
