package manual

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"time"

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

	// File is the absolute path of a file that says the same, without Self. It need not exist yet. Every call reads it.
	File string `yaml:"file" json:"file"`

	// Dir, if set, is a directory as in file.Options that keeps the leaderships. Then two processes never lead.
	Dir string `yaml:"dir" json:"dir"`

	// MaxTTL is the greatest TTL, from 50 ms to 1 h, the same for all members. With File and without Dir a newly
	// named process waits for so long before it leads. Default: 15 s.
	MaxTTL time.Duration `yaml:"max_ttl" json:"max_ttl"`

	// Store, if set, keeps the leaderships, for several managers in this process. Without effect if Dir is set.
	Store *memory.Store `yaml:"-" json:"-"`
}

func init() { backend.Register(Name, Options{}, Open) }

// Open checks o and returns a Backend. It does not read the file. All errors are ErrInvalid, except those of
// package backend/file about Dir.
func Open(o Options) (*Backend, error) {
	o.MaxTTL = cmp.Or(o.MaxTTL, 15*time.Second)
	named := o.Leader != "" || len(o.Leaders) > 0
	switch {
	case named == (o.File != ""):
		return nil, fmt.Errorf("manual: %w: set either leader (an id, or self) and leaders, or file", backend.ErrInvalid)
	case o.File != "" && !filepath.IsAbs(o.File):
		return nil, fmt.Errorf("manual: %w: the file is %q, a relative path: processes started in different places would each read another; give an absolute one", backend.ErrInvalid, o.File)
	case o.MaxTTL < 50*time.Millisecond || o.MaxTTL > time.Hour:
		return nil, fmt.Errorf("manual: %w: the greatest TTL is %v; it must be from 50ms to 1h", backend.ErrInvalid, o.MaxTTL)
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
