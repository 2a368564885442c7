package config

import (
	"context"
	"encoding/json"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/electionguard"
)

// RunGuard must be the first call of main in a program whose configuration may say "guard: true". In the
// program it returns at once; in its guard (the same binary) it never returns. See electionguard.
func RunGuard() { electionguard.Main(openInGuard) }

// StartGuard starts the guard of this process, which opens the same store: c.Election.Guard is meant for it.
// [Config.Open] calls it for "guard: true". The errors are those of electionguard.Start.
func (c *Config) StartGuard() (*electionguard.Guard, error) {
	s := c.source
	store, err := json.Marshal(guarded{c.Backend, s.file, s.text, s.environ})
	if err != nil {
		return nil, err
	}
	return electionguard.Start(electionguard.Options{Store: store, Logger: c.Election.Logger})
}

// A guarded is what a guard needs to open the store. It holds secrets.
type guarded struct {
	Backend, File string
	Text          []byte
	Environ       map[string]string
}

// openInGuard opens the store in the guard.
func openInGuard(_ context.Context, store []byte) (backend.Backend, error) {
	var g guarded
	if err := json.Unmarshal(store, &g); err != nil {
		return nil, err
	}
	environ := []string{} // not nil, which stands for that of the process
	for name, value := range g.Environ {
		environ = append(environ, name+"="+value)
	}
	c, err := Parse(g.File, g.Text, Options{Environ: environ})
	if err != nil {
		return nil, err
	}
	c.Backend = g.Backend
	return c.OpenBackend()
}
