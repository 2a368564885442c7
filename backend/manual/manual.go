package manual

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/backend/memory"
)

// Name is how this backend is registered.
const Name = "manual"

// Self as Options.Leader names whoever reads it.
const Self = "self"

// Options says who is named. Either File or at least one of Leader and Leaders is set.
type Options struct {
	// Leader is the id of the candidate that leads, or [Self]. Empty: nobody,
	// but for Leaders.
	Leader string

	// Leaders names others by election. An empty id: nobody. It is copied.
	Leaders map[string]string

	// File names a file that says the same, in the form of the package
	// documentation. It need not be there yet. Self is not allowed in it.
	File string

	// Dir, if set, keeps leaderships in a directory of package backend/file, as its Options
	// say, so that processes of one machine see each other and two never lead.
	Dir string

	// MaxTTL is the greatest TTL, and with File alone how long who is newly named
	// watches before it leads; all members must have the same. It matters with
	// File or Dir only. From 50 ms to 1 h. Default: 15 s.
	MaxTTL time.Duration

	// Store, if set, keeps leaderships in this process, so that several managers of
	// it see each other. Default: a store of its own. Not together with Dir.
	Store *memory.Store
}

const (
	minTTL        = 50 * time.Millisecond
	greatestTTL   = time.Hour
	defaultMaxTTL = 15 * time.Second
)

// A Backend grants leases to who is named. It implements [backend.Backend].
type Backend struct {
	inner  backend.Backend // keeps the leaderships
	apart  bool            // of this manager alone
	kept   bool            // in a directory, where the kernel allows one leader
	file   string
	maxTTL time.Duration

	guard   backend.SingleOwner
	reading sync.Mutex // held from reading the file until it was compared with the last
	text    []byte     // of the file as last accepted; needs reading

	mu  sync.Mutex
	id  string            // of the candidate that this Backend serves, once known
	now assignment        // of the options, or as last read
	led map[string]uint64 // version under which each election was led from here
}

var _ backend.Backend = (*Backend)(nil)

func init() {
	backend.Register(Name, func(ctx context.Context, decode func(any) error) (backend.Backend, error) {
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
		return Open(ctx, Options{Leader: c.Leader, Leaders: c.Leaders, File: c.File, Dir: c.Dir, MaxTTL: c.MaxTTL})
	})
}

// Open checks o and returns a Backend. It does not read the file. All errors are
// ErrInvalid, but those of package backend/file about Dir.
func Open(ctx context.Context, o Options) (*Backend, error) {
	if o.MaxTTL == 0 {
		o.MaxTTL = defaultMaxTTL
	}
	b := &Backend{file: o.File, maxTTL: o.MaxTTL, led: map[string]uint64{}}
	wrong := func(format string, args ...any) (*Backend, error) {
		return nil, fmt.Errorf("manual: %w: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case o.File != "" && (o.Leader != "" || len(o.Leaders) > 0):
		return wrong("both a file and leaders are given; set one of them")
	case o.File == "" && o.Leader == "" && len(o.Leaders) == 0:
		return wrong("nobody is named: set leader (an id, or self), leaders or file")
	case o.Dir != "" && o.Store != nil:
		return wrong("both a directory and a store are given; set one of them")
	case o.MaxTTL < minTTL || o.MaxTTL > greatestTTL:
		return wrong("the greatest TTL is %v; it must be from %v to %v", o.MaxTTL, minTTL, greatestTTL)
	}
	if o.File == "" {
		b.now = assignment{Version: 1, Leader: o.Leader, Elections: o.Leaders}.copy()
		if err := b.now.check(true); err != nil {
			return nil, fmt.Errorf("manual: %w", err)
		}
	}
	switch {
	case o.Dir != "":
		inner, err := file.Open(ctx, file.Options{Dir: o.Dir, MaxTTL: o.MaxTTL})
		if err != nil {
			return nil, fmt.Errorf("manual: %w", err)
		}
		b.inner, b.kept = inner, true
	case o.Store != nil:
		b.inner = o.Store.Backend()
	default:
		b.inner, b.apart = memory.New().Backend(), true
	}
	return b, nil
}

// Location implements [backend.Located]: the file that names who leads, else the directory.
func (b *Backend) Location() string { return cmp.Or(b.file, backend.Where(b.inner)) }

// Guarantees says what a configuration can promise.
func (b *Backend) Guarantees() backend.Guarantees {
	g := b.inner.Guarantees()
	g.Name = Name
	if g.Expiry == backend.ByKernel { // with Dir
		return g
	}
	g.Expiry, g.Exclusive, g.DurableTerms, g.Marks = backend.ByOperator, false, false, false
	if b.file != "" {
		g.MinTTL, g.MaxTTL = minTTL, b.maxTTL
	}
	return g
}

// Close frees what was opened. It does not release leases.
func (b *Backend) Close() error {
	b.guard.Close()
	return fail("close", b.inner.Close())
}

// enter begins a call for a candidate, or for nobody.
func (b *Backend) enter(ctx context.Context, c backend.Candidate) error {
	err := b.guard.Enter(ctx, c.Nonce)
	if err == nil && c.Nonce != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.id = c.ID
	}
	return err
}

func fail(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("manual: %s: %w", what, err)
}
