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

	// File is the absolute path of a file that says the same. It need not exist yet, and must not contain
	// Self. Every call reads it, so an edit takes effect within a third of a TTL.
	File string `yaml:"file" json:"file"`

	// Dir, if set, is a directory of package backend/file that keeps the leaderships. Then processes of one
	// machine see each other, and two never lead. Its rules are those of file.Options.
	Dir string `yaml:"dir" json:"dir"`

	// MaxTTL is the greatest TTL. With File and without Dir it is also how long a newly named process waits
	// before it leads. All members must have the same. From 50 ms to 1 h. Default: 15 s.
	MaxTTL time.Duration `yaml:"max_ttl" json:"max_ttl"`

	// Store, if set, keeps the leaderships in this process, so that several managers in it see each other.
	// Default: a store of its own. Not together with Dir.
	Store *memory.Store `yaml:"-" json:"-"`
}

const (
	minTTL        = 50 * time.Millisecond
	greatestTTL   = time.Hour
	defaultMaxTTL = 15 * time.Second
)

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var o Options
		if err := decode(&o); err != nil {
			return nil, err
		}
		return Open(o)
	})
}

// Open checks o and returns a Backend. It does not read the file. All errors are ErrInvalid, except those of
// package backend/file about Dir.
func Open(o Options) (*Backend, error) {
	o.MaxTTL = cmp.Or(o.MaxTTL, defaultMaxTTL)
	if wrong := o.wrong(); wrong != "" {
		return nil, fmt.Errorf("manual: %w: %s", backend.ErrInvalid, wrong)
	}
	b := &Backend{file: o.File, maxTTL: o.MaxTTL, led: map[string]uint64{}}
	if o.File == "" {
		b.current = assignment{Version: 1, Leader: o.Leader, Elections: maps.Clone(o.Leaders)}
	}
	if err := b.current.check(true); err != nil {
		return nil, fmt.Errorf("manual: %w", err)
	}
	switch {
	case o.Dir != "":
		inner, err := file.Open(file.Options{Dir: o.Dir, MaxTTL: o.MaxTTL})
		if err != nil {
			return nil, fmt.Errorf("manual: %w", err)
		}
		b.Backend, b.inDir = inner, true
	case o.Store != nil:
		b.Backend = o.Store.Backend()
	default:
		b.Backend, b.private = memory.New().Backend(), true
	}
	return b, nil
}

func (o Options) wrong() string {
	named := o.Leader != "" || len(o.Leaders) > 0
	switch {
	case named && o.File != "":
		return "both a file and leaders are given; set one of them"
	case !named && o.File == "":
		return "nobody is named: set leader (an id, or self), leaders or file"
	case o.File != "" && !filepath.IsAbs(o.File):
		return fmt.Sprintf("the file is %q, a relative path: processes started in different places would each read another; give an absolute one", o.File)
	case o.Dir != "" && o.Store != nil:
		return "both a directory and a store are given; set one of them"
	case o.MaxTTL < minTTL || o.MaxTTL > greatestTTL:
		return fmt.Sprintf("the greatest TTL is %v; it must be from %v to %v", o.MaxTTL, minTTL, greatestTTL)
	}
	return ""
}
