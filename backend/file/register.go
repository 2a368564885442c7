//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
)

// The register is the file ELECTIONS: a line that says what this directory is,
// and the names of all elections that were ever led in it, encoded. An election
// that stands there and has no files has lost them; one that does not was never
// led, and its first leader need not wait.
type register struct {
	id      string // of the file; "" if there is none
	size    int64
	changed syscall.Timespec
	own     bool // it was made as this file, and is no copy
	part    bool // it was made while others led, and may not know of them
	since   time.Time
	names   map[string]bool
}

const (
	maxRegister = 64 << 20
	ownMark     = "@" // before the identity of the file itself; no name begins so
	partMark    = "@part"
	wholeMark   = "@whole" // after partMark: all who led have had time to write their names, or have stopped
)

// remember notes a term of an election, and returns the greatest that this process has
// seen, whatever becomes of the files.
func (b *Backend) remember(name string, term uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if term > b.led[name] && term <= math.MaxInt64 {
		b.led[name] = term
	}
	return b.led[name]
}

func (b *Backend) registerPath() string { return filepath.Join(b.dir, registerFile) }

func (b *Backend) heading() string {
	return fmt.Sprintf("go-election, backend file, layout %d, greatest TTL %v", layout, b.maxTTL)
}

// listed reports whether there is a register, and whether an election stands in it. A
// copy of one, put back from a backup, may not know who leads now: there is none.
func (b *Backend) listed(name string) (exists, listed bool, err error) {
	f, st, err := open(b.registerPath(), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.register = register{}
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := &b.register; r.id != identity(&st) || r.size != st.Size || r.changed != changed(&st) {
		if st.Size > maxRegister {
			return false, false, fmt.Errorf("%w: %s has %d bytes; stop all members and mend it", backend.ErrDenied, b.registerPath(), st.Size)
		}
		text := make([]byte, st.Size)
		n, err := f.ReadAt(text, 0)
		if int64(n) < st.Size {
			return false, false, err
		}
		lines := strings.Split(string(text), "\n")
		if lines[0] != b.heading() {
			return false, false, fmt.Errorf("%w: %s begins with %.100q, and this member is configured for %q; give all members the same greatest TTL, or stop them all and edit that line",
				backend.ErrDenied, b.registerPath(), lines[0], b.heading())
		}
		since := time.Now()
		if r.part && r.id == identity(&st) && r.size < st.Size {
			since = r.since
		}
		*r = register{id: identity(&st), size: st.Size, changed: changed(&st), since: since, names: make(map[string]bool, len(lines))}
		for _, line := range lines[1:] {
			if id, mark := strings.CutPrefix(line, ownMark); mark {
				r.own = r.own || same(id, r.id)
				r.part = (r.part || line == partMark) && line != wholeMark
			} else if line != "" {
				r.names[line] = true
			}
		}
	}
	return b.register.own, b.register.names[encode(name)], nil
}

// enlist writes an election's name into the register, which it makes if need be.
// Both last when it returns.
func (b *Backend) enlist(name string) error {
	exists, listed, err := b.listed(name)
	for try := 0; err == nil && !exists; try++ {
		if try == 5 {
			return fmt.Errorf("%w: %s is made, and is gone at once", backend.ErrUnavailable, b.registerPath())
		}
		if err := b.makeRegister(); err != nil {
			return err
		}
		exists, listed, err = b.listed(name)
	}
	if err == nil && b.whole() {
		err = b.addLine(b.registerPath(), wholeMark)
	}
	if err != nil || listed {
		return err
	}
	if err := b.addLine(b.registerPath(), encode(name)); err != nil {
		return err
	}
	return b.syncDir()
}

// whole reports whether the register was made while others led, long enough ago.
func (b *Backend) whole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.register.part && time.Since(b.register.since) > b.maxTTL
}

// addLine writes a line at the end of a file, to the disk.
func (b *Backend) addLine(path, line string) error {
	f, st, err := open(path, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	defer f.Close()
	line += "\n"
	end := []byte{'\n'}
	if f.ReadAt(end, st.Size-1); end[0] != '\n' {
		line = "\n" + line // after a line that a crash has cut off
	}
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	return flush(f)
}

// makeRegister makes the register, or, of a copy, one that is none.
func (b *Backend) makeRegister() error {
	text := b.heading() + "\n"
	switch free, err := b.unled(); {
	case err != nil:
		return err
	case !free:
		text += partMark + "\n"
	}
	b.mu.Lock()
	copied := b.register.id != "" && !b.register.own
	for name := range b.register.names {
		if copied {
			text += name + "\n"
		}
	}
	b.mu.Unlock()
	temp, err := b.temp([]byte(text), true)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	id, err := at(temp)
	if err == nil {
		err = b.addLine(temp, ownMark+id)
	}
	switch {
	case err != nil:
		return err
	case copied: // if another process does so, too, who leads puts back its own election at its next renewal
		return os.Rename(temp, b.registerPath())
	}
	if err := os.Link(temp, b.registerPath()); !errors.Is(err, os.ErrExist) { // in one step, and the first one wins
		return err
	}
	return nil
}
