//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-election/go-election/backend"
)

// The register is the file ELECTIONS: a line that says what this directory is,
// and the names of all elections that were ever led in it, encoded. An election
// that stands there and has no files has lost them; one that does not was never
// led, and its first leader need not wait.
type register struct {
	id    string // of the file; "" if there is none
	size  int64
	names map[string]bool
}

func (b *Backend) registerPath() string { return filepath.Join(b.dir, registerFile) }

func (b *Backend) heading() string {
	return fmt.Sprintf("go-election, backend file, layout %d, greatest TTL %v", layout, b.maxTTL)
}

// listed reports whether there is a register, and whether an election stands in it.
func (b *Backend) listed(name string) (exists, listed bool, err error) {
	f, st, err := open(b.registerPath(), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := &b.register; r.id != identity(&st) || r.size != st.Size {
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
		*r = register{identity(&st), st.Size, make(map[string]bool, len(lines))}
		for _, line := range lines[1:] {
			r.names[line] = true
		}
	}
	return true, b.register.names[encode(name)], nil
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
	if err != nil || listed {
		return err
	}
	f, st, err := open(b.registerPath(), os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	defer f.Close()
	line, end := encode(name)+"\n", []byte{'\n'}
	if f.ReadAt(end, st.Size-1); end[0] != '\n' {
		line = "\n" + line // after a line that a crash has cut off
	}
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	if err := flush(f); err != nil {
		return err
	}
	return b.syncDir()
}

func (b *Backend) makeRegister() error {
	temp, err := b.temp([]byte(b.heading()+"\n"), true)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	if err := os.Link(temp, b.registerPath()); !errors.Is(err, os.ErrExist) { // in one step, and the first one wins
		return err
	}
	return nil
}
