package manual

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/go-election/go-election/backend"
)

// An assignment says who leads. It is the content of the file.
type assignment struct {
	Version   uint64            `json:"version"`
	Leader    string            `json:"leader"`
	Elections map[string]string `json:"elections"`
}

const (
	maxFile    = 8 << 20
	maxVersion = 1 << 60 // terms must exceed it
)

func (a assignment) copy() assignment {
	a.Elections = maps.Clone(a.Elections)
	return a
}

func (a assignment) equal(o assignment) bool {
	return a.Version == o.Version && a.Leader == o.Leader && maps.Equal(a.Elections, o.Elections)
}

// named returns the id of the leader of an election, "" if nobody may lead.
func (a assignment) named(election string) string {
	if id, ok := a.Elections[election]; ok {
		return id
	}
	return a.Leader
}

// check reports names and ids that are not valid. Self is valid only if self is true.
func (a assignment) check(self bool) error {
	ids := map[string]string{"leader": a.Leader}
	for name, id := range a.Elections {
		if err := backend.CheckName(name); err != nil {
			return err
		}
		ids[fmt.Sprintf("the leader of %q", name)] = id
	}
	for what, id := range ids {
		if id == "" {
			continue
		}
		if err := backend.CheckID(id); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if id == Self && !self {
			return fmt.Errorf("%w: %s is %q; in a file that several processes read, each of them would lead: name an id", backend.ErrInvalid, what, Self)
		}
	}
	return nil
}

// assignment returns the current assignment. With a file it reads the file.
func (b *Backend) assignment() (assignment, error) {
	if b.file == "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.current, nil
	}
	b.fileMu.Lock() // otherwise a call could compare an older file with a newer one
	defer b.fileMu.Unlock()
	text, err := readText(b.file)
	if err == nil && b.text != nil && bytes.Equal(text, b.text) { // parsing a big file takes long
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.current, nil
	}
	var a assignment
	if err == nil {
		a, err = parse(text)
	}
	if err != nil {
		// ErrDenied, not ErrInvalid: an operator can mend the file.
		return a, fmt.Errorf("%w: %s: %v; nobody is granted anything, and the leader stops at its deadline", backend.ErrDenied, b.file, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch old := b.current; {
	case a.Version < old.Version:
		return a, fmt.Errorf("%w: %s has version %d and had version %d before: the version must grow with each change", backend.ErrDenied, b.file, a.Version, old.Version)
	case a.Version == old.Version && !a.equal(old):
		return a, fmt.Errorf("%w: %s was changed and still has version %d: the version must grow with each change, and the file be replaced in one step (mv)", backend.ErrDenied, b.file, a.Version)
	}
	b.current, b.text = a, text
	return a, nil
}

func readText(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("the file is longer than %d bytes", maxFile)
	}
	return text, err
}

func parse(text []byte) (a assignment, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return a, fmt.Errorf("not understood: %.200q", err.Error())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return a, errors.New("something follows the closing brace")
	}
	if a.Version == 0 || a.Version > maxVersion {
		return a, fmt.Errorf("the version is %d; it must be from 1 to %d", a.Version, uint64(maxVersion))
	}
	return a, a.check(false)
}

// Assign names the leader of one election while the process runs. The election "" stands
// for all that have no leader of their own. An empty leader: nobody may lead. The lease
// changes hands at the next renewal. Assign returns ErrInvalid where a file names the
// leader. It is safe for concurrent use.
func (b *Backend) Assign(election, leader string) error {
	if b.file != "" {
		return fmt.Errorf("manual: assign: %w: a file names the leader: edit %s", backend.ErrInvalid, b.file)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.current.copy()
	a.Version++
	if election == "" {
		a.Leader = leader
	} else {
		if a.Elections == nil {
			a.Elections = map[string]string{}
		}
		a.Elections[election] = leader
	}
	if err := a.check(true); err != nil {
		return fail("assign", err)
	}
	b.current = a
	return nil
}
