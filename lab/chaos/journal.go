//go:build linux

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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
	Method  string `json:"method,omitempty"`  // Called
	Outcome string `json:"outcome,omitempty"` // Called: ok, fail (certainly not done) or unknown; Wrote: ok, refused or unknown
	Text    string `json:"text,omitempty"`    // error text
	Number  int    `json:"number,omitempty"`  // Wrote: counts the process's writes
}

// Kinds of lines, in addition to those of package conformance.
const (
	Started conformance.EntryKind = "started" // the process started
	Called  conformance.EntryKind = "called"  // the call was answered, for one election
	Running conformance.EntryKind = "running" // the lead function was entered
	Wrote   conformance.EntryKind = "wrote"   // the process wrote to the resource, in Term
	Died    conformance.EntryKind = "died"    // the process was killed, or had ended
)

// Outcomes of calls and writes.
const (
	ok      = "ok"
	fail    = "fail"
	refused = "refused"
	unknown = "unknown"
)

// A journal is a file of lines. Each line is one system call, so that lines survive a
// kill of the process.
type journal struct {
	process string

	mu   sync.Mutex
	file *os.File
}

func openJournal(name, process string) (*journal, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{process: process, file: f}, nil
}

// note appends a line. If that fails it panics: a history with missing lines proves
// nothing.
func (j *journal) note(l Line) {
	l.Process = j.process
	text, err := json.Marshal(l)
	if err == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		_, err = j.file.Write(append(text, '\n'))
	}
	if err != nil {
		panic(fmt.Errorf("write a line of the journal: %w", err))
	}
}

// readJournal returns the lines of a file. The last may be cut short if the process
// was killed.
func readJournal(name string) (lines []Line, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
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
