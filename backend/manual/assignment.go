package manual

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/go-election/go-election/backend"
)

// An assignment says who leads. It is the content of the file.
type assignment struct {
	Version   uint64            `json:"version"`
	Leader    string            `json:"leader"`
	Elections map[string]string `json:"elections"`
}

const maxVersion = 1 << 60 // terms must exceed it

// named returns the id of the leader of an election, "" if nobody may lead.
func (a assignment) named(election string) string {
	if id, ok := a.Elections[election]; ok {
		return id
	}
	return a.Leader
}

// check reports a name or an id that is not valid. Self is valid only if self is true.
func (a assignment) check(self bool) error {
	for name := range a.Elections {
		if err := backend.CheckName(name); err != nil {
			return err
		}
	}
	for _, id := range append(slices.Collect(maps.Values(a.Elections)), a.Leader) {
		if id == Self && !self {
			return fmt.Errorf("%w: a leader is %q; in a file that several processes read, each of them would lead: name an id", backend.ErrInvalid, Self)
		}
		if id == "" {
			continue // nobody may lead
		}
		if err := backend.CheckID(id); err != nil {
			return err
		}
	}
	return nil
}

// assignment returns the current assignment. With a file it reads the file.
func (b *Backend) assignment() (assignment, error) {
	b.mu.Lock() // while it reads: otherwise a call could compare an older file with a newer one
	defer b.mu.Unlock()
	if b.file == "" {
		return b.current, nil
	}
	text, err := os.ReadFile(b.file)
	var a assignment
	if err == nil {
		a, err = parse(text)
	}

	old := b.current
	same := a.Leader == old.Leader && maps.Equal(a.Elections, old.Elections)
	switch {
	case err != nil:
		err = fmt.Errorf("%v; nobody is granted anything, and the leader stops at its deadline", err)
	case a.Version < old.Version || a.Version == old.Version && !same:
		err = fmt.Errorf("it was changed, has version %d and had version %d before: the version must grow with each change, and the file be replaced in one step (mv)", a.Version, old.Version)
	default:
		b.current = a
		return a, nil
	}
	return a, fmt.Errorf("manual: %w: %s: %v", backend.ErrDenied, b.file, err) // not ErrInvalid: an operator can mend it
}

func parse(text []byte) (a assignment, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return a, fmt.Errorf("not understood: %.200q", err.Error())
	}
	if d.More() {
		return a, fmt.Errorf("something follows the closing brace")
	}
	if a.Version == 0 || a.Version > maxVersion {
		return a, fmt.Errorf("the version is %d; it must be from 1 to %d", a.Version, uint64(maxVersion))
	}
	return a, a.check(false)
}
