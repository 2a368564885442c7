//go:build linux

package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
)

// Now is the time on the machine's monotonic clock, which all processes share.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(ts.Nano())
}

// A Line is one line of a history.
type Line struct {
	conformance.Entry
	Method  string          `json:"method,omitempty"`  // of a call: Acquire, Renew or Release
	Outcome backend.Outcome `json:"outcome,omitempty"` // of a call
	Text    string          `json:"text,omitempty"`    // error text
}

// Kinds of lines, in addition to those of package conformance.
const (
	Started conformance.EntryKind = "started" // the process started
	Called  conformance.EntryKind = "called"  // a call for one election is not known to have succeeded
)

// note appends a line to the journal of the process, by one system call, so that it survives a kill of the
// process. If that fails it panics: a history with missing lines proves nothing.
func (w *writer) note(l Line) {
	l.Process = w.Process
	text, err := json.Marshal(l)
	if err == nil {
		_, err = w.journal.Write(append(text, '\n'))
	}
	if err != nil {
		panic(fmt.Errorf("write a line of the journal: %w", err))
	}
}

// readJournal returns the lines of a file. A kill may have cut the last short.
func readJournal(name string) (lines []Line, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) { // the process was killed before it could do anything
		return nil, nil
	}
	for d := json.NewDecoder(bytes.NewReader(text)); err == nil; {
		var l Line
		if err = d.Decode(&l); err == nil {
			lines = append(lines, l)
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return lines, nil
	}
	return nil, fmt.Errorf("line %d of %s: %w", len(lines)+1, name, err)
}
