package manual

import (
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// Name is how this backend is registered.
const Name = "manual"

// Self, as [Options].Leader, names every process that reads it.
const Self = "self"

// Options say who leads. Either File or at least one of Leader and Leaders is required.
type Options struct {
	// Leader is the id of the candidate that leads, or [Self]. Empty: nobody leads, except
	// by Leaders.
	Leader string

	// Leaders names other leaders, by election. An empty id: nobody leads it. It is copied.
	Leaders map[string]string

	// File is the absolute path of a file that says the same, in the form of the package
	// documentation. It need not exist yet. It must not contain Self.
	File string

	// Dir, if set, is a directory of package backend/file that keeps the leaderships. Then
	// processes of one machine see each other, and two never lead. Its rules are those of
	// file.Options.
	Dir string

	// MaxTTL is the greatest TTL. With File and without Dir it is also how long a newly
	// named process waits before it leads. All members must have the same. It matters with
	// File or Dir only. From 50 ms to 1 h. Default: 15 s.
	MaxTTL time.Duration

	// Store, if set, keeps the leaderships in this process, so that several managers in it
	// see each other. Default: a store of its own. Not together with Dir.
	Store *memory.Store
}

const (
	minTTL        = 50 * time.Millisecond
	greatestTTL   = time.Hour
	defaultMaxTTL = 15 * time.Second
)

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var c struct {
			Leader  string            `yaml:"leader" json:"leader"`
			Leaders map[string]string `yaml:"leaders" json:"leaders"`
			File    string            `yaml:"file" json:"file"`
			Dir     string            `yaml:"dir" json:"dir"`
			MaxTTL  time.Duration     `yaml:"max_ttl" json:"max_ttl"`
		}
		if err := decode(&c); err != nil {
			return nil, err
		}
		return Open(Options{Leader: c.Leader, Leaders: c.Leaders, File: c.File, Dir: c.Dir, MaxTTL: c.MaxTTL})
	})
}
