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

// The register is the file ELECTIONS: a first line that identifies this directory, and the
// encoded names of all elections that were ever led in it. An election that is listed and
// has no files has lost them. One that is not listed was never led, and its first leader
// need not wait.
type register struct {
	id       string // identity of the file; "" if there is none
	size     int64
	changed  syscall.Timespec
	original bool // it was made as this file, and is not a copy
	partial  bool // it was made while processes led, and may not list their elections
	since    time.Time
	names    map[string]bool
}

const (
	maxRegister  = 64 << 20
	selfPrefix   = "@" // before the identity of the file itself; no encoded name begins with it
	partialMark  = "@part"
	completeMark = "@whole" // after partialMark: every process that led has listed its elections since, or has stopped
)

// noteTerm remembers a term of an election, and returns the greatest that this process has
// seen, whatever happens to the files.
func (b *Backend) noteTerm(name string, term uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if term > b.greatestTerms[name] && term <= math.MaxInt64 {
		b.greatestTerms[name] = term
	}
	return b.greatestTerms[name]
}

func (b *Backend) registerPath() string { return filepath.Join(b.dir, registerFile) }

// header returns the first line of the register.
func (b *Backend) header() string {
	return fmt.Sprintf("go-election, backend file, layout %d, greatest TTL %v", layout, b.maxTTL)
}

// isListed reports whether there is a register, and whether it lists an election. A copy
// that was put back from a backup may not list who leads now, and does not count.
func (b *Backend) isListed(name string) (exists, listed bool, err error) {
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
		if err := b.readRegister(f, &st); err != nil {
			return false, false, err
		}
	}
	return b.register.original, b.register.names[encode(name)], nil
}

// readRegister reads the register from its file. The caller holds b.mu.
func (b *Backend) readRegister(f *os.File, st *syscall.Stat_t) error {
	if st.Size > maxRegister {
		return fmt.Errorf("%w: %s has %d bytes, more than %d; stop all members and mend it", backend.ErrDenied, b.registerPath(), st.Size, maxRegister)
	}
	text := make([]byte, st.Size)
	if n, err := f.ReadAt(text, 0); int64(n) < st.Size {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if lines[0] != b.header() {
		return fmt.Errorf("%w: %s begins with %.100q, and this member is configured for %q; give all members the same greatest TTL, or stop them all and edit that line",
			backend.ErrDenied, b.registerPath(), lines[0], b.header())
	}
	r := &b.register
	since := time.Now()
	if r.partial && r.id == identity(st) && r.size < st.Size {
		since = r.since
	}
	*r = register{id: identity(st), size: st.Size, changed: changed(st), since: since, names: make(map[string]bool, len(lines))}
	for _, line := range lines[1:] {
		if id, mark := strings.CutPrefix(line, selfPrefix); mark {
			r.original = r.original || sameFile(id, r.id)
			r.partial = (r.partial || line == partialMark) && line != completeMark
		} else if line != "" {
			r.names[line] = true
		}
	}
	return nil
}

// registerComplete reports whether an election that the register does not list was never led.
func (b *Backend) registerComplete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dirSettled() && !b.register.partial
}

// addElection lists an election in the register, and makes the register if there is none.
// Both are on the disk when it returns.
func (b *Backend) addElection(name string) error {
	exists, listed, err := b.isListed(name)
	for try := 0; err == nil && !exists; try++ {
		if try == 5 {
			return fmt.Errorf("%w: %s is gone as soon as it is made", backend.ErrUnavailable, b.registerPath())
		}
		if err := b.createRegister(); err != nil {
			return err
		}
		exists, listed, err = b.isListed(name)
	}
	if err == nil && b.becameComplete() {
		err = b.addLine(b.registerPath(), completeMark)
	}
	if err != nil || listed {
		return err
	}
	if err := b.addLine(b.registerPath(), encode(name)); err != nil {
		return err
	}
	return b.syncDir()
}

// becameComplete reports whether a partial register is older than the greatest TTL.
func (b *Backend) becameComplete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.register.partial && time.Since(b.register.since) > b.maxTTL
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
	return syncData(f)
}

// createRegister makes a register where there is none, or replaces a copy. It takes the
// names of a copy over.
func (b *Backend) createRegister() error {
	text := b.header() + "\n"
	switch free, err := b.nobodyLeads(); {
	case err != nil:
		return err
	case !free:
		text += partialMark + "\n"
	}
	b.mu.Lock()
	copied := b.register.id != "" && !b.register.original
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
	id, err := identityAt(temp)
	if err == nil {
		err = b.addLine(temp, selfPrefix+id)
	}
	switch {
	case err != nil:
		return err
	case copied: // if another process replaces it, too, each leader lists its election again at its next renewal
		return os.Rename(temp, b.registerPath())
	}
	if err := os.Link(temp, b.registerPath()); !errors.Is(err, os.ErrExist) { // in one step; the first process wins
		return err
	}
	return nil
}
