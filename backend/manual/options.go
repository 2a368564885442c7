package manual

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/backend/memory"
)

// Name is how this backend is registered.
const Name = "manual"

// Self, as [Options].Leader, names every process that reads it: the "not HA" mode of a single process.
const Self = "self"

// Options say who leads. Either File or at least one of Leader and Leaders is required.
type Options struct {
	// Leader is the id of the candidate that leads, or [Self]. Empty: nobody leads, except by Leaders.
	Leader string `yaml:"leader" json:"leader"`

	// Leaders names other leaders, by election. An empty id: nobody leads it. It is copied.
	Leaders map[string]string `yaml:"leaders" json:"leaders"`

	// File is the absolute path of a file that says so, without Self. Each call reads it; it may come later.
	File string `yaml:"file" json:"file"`

	// Dir, if set, is a directory as in file.Options that keeps the leaderships. Then two never lead.
	Dir string `yaml:"dir" json:"dir"`

	// MaxTTL is the greatest TTL, from 50 ms to 1 h, the same for all members. With File and without Dir a
	// newly named process waits for so long before it leads. Default: 15 s.
	MaxTTL time.Duration `yaml:"max_ttl" json:"max_ttl"`

	// Store, if set, keeps the leaderships, for several managers in this process; if Dir is not set.
	Store *memory.Store `yaml:"-" json:"-"`
}

func init() { backend.Register(Name, Options{}, Open) }

// Open checks o. It does not read the file. All errors are ErrInvalid, except those about Dir.
func Open(o Options) (*Backend, error) {
	o.MaxTTL = cmp.Or(o.MaxTTL, 15*time.Second)
	named, problem := o.Leader != "" || len(o.Leaders) > 0, ""
	switch {
	case named == (o.File != ""):
		problem = "set either leader (an id, or self) and leaders, or file"
	case o.File != "" && !filepath.IsAbs(o.File):
		problem = fmt.Sprintf("the file is %q, a relative path: give an absolute one", o.File)
	case o.MaxTTL < 50*time.Millisecond || o.MaxTTL > time.Hour:
		problem = fmt.Sprintf("the greatest TTL is %v; it must be from 50ms to 1h", o.MaxTTL)
	}
	if problem != "" {
		return nil, fmt.Errorf("manual: %w: %s", backend.ErrInvalid, problem)
	}

	b := &Backend{file: o.File, maxTTL: o.MaxTTL, led: map[string]uint64{}}
	if o.File == "" {
		b.current = assignment{Version: 1, Leader: o.Leader, Elections: maps.Clone(o.Leaders)}
	}
	if err := b.current.check(true); err != nil {
		return nil, fmt.Errorf("manual: %w", err)
	}
	b.Backend = cmp.Or(o.Store, memory.New()).Backend()
	if o.Dir != "" {
		inner, err := file.Open(file.Options{Dir: o.Dir, MaxTTL: o.MaxTTL})
		if err != nil {
			return nil, fmt.Errorf("manual: %w", err)
		}
		b.Backend, b.inDir = inner, true
	}
	return b, nil
}

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
			return fmt.Errorf("%w: a leader is %q; in a file that several processes read, "+
				"each of them would lead: name an id", backend.ErrInvalid, Self)
		}
		if err := backend.CheckText("id", id, backend.MaxID, false); err != nil { // "": nobody may lead
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
	a, parseErr := parse(text)
	err = cmp.Or(err, parseErr)

	old := b.current
	same := a.Leader == old.Leader && maps.Equal(a.Elections, old.Elections)
	switch {
	case err != nil:
		err = fmt.Errorf("%v; nobody is granted anything, and the leader stops at its deadline", err)
	case a.Version < old.Version || a.Version == old.Version && !same:
		err = fmt.Errorf("it was changed, has version %d and had version %d: the version must grow with "+
			"each change, and the file be replaced in one step (mv)", a.Version, old.Version)
	default:
		b.current = a
		return a, nil
	}
	return a, fmt.Errorf("manual: %w: %s: %v", backend.ErrDenied, b.file, err) // an operator can mend it
}

func parse(text []byte) (a assignment, err error) {
	if !utf8.Valid(text) { // JSON would take another id
		return a, fmt.Errorf("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff")))) // as some editors write
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
