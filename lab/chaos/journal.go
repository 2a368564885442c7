//go:build linux

package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	Called  conformance.EntryKind = "called"  // a call did not succeed, or is not known to have, for one election
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

// readJournal returns the lines of a file. The last may be cut short if the process
// was killed.
func readJournal(name string) (lines []Line, err error) {
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the process was killed, or the run had ended, before it could do anything
		return nil, nil
	case err != nil:
		return nil, err
	}
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if text = rest; !whole {
			break
		}
		var l Line
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}
