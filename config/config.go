package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionguard"
)

// prefix begins the names of environment variables.
const prefix = "ELECTION_"

// Options selects the environment that Load and Parse read. The zero value is ready to use.
type Options struct {
	// Environ is the environment, in the form of os.Environ. Nil means
	// os.Environ(); an empty slice means no environment.
	Environ []string
}

// Config is a configuration that has been read and checked. Its methods do not
// change it. When printed, it shows no value of any store's section.
type Config struct {
	// Backend is the name of the selected store.
	Backend string

	// Election has the manager's options. A program may complete them before
	// Open: a file cannot hold Logger and Health.
	Election election.Options

	// Guard makes Open start a guard, so that a crash of this process costs milliseconds: see
	// package electionguard. The program must have called [RunGuard]. Default: false.
	Guard bool

	source *decoder // it holds secrets, behind a pointer, which no formatting verb follows
}

// general has the keys outside the stores' sections.
type general struct {
	Backend          string
	election.Options // each that a file can hold
	Guard            bool
}

// stores are the backends of this module and of its nested modules. A file may have their sections even if
// the program does not import them.
var stores = strings.Fields("consul curator etcd file kubernetes manual memory migration mysql mysqltable " +
	"postgres redis s3 zookeeper")

// Open reads a file and the environment and starts a manager on the store that they name: it calls Load and
// [Config.Open]. Without a file it reads the environment alone. The store need not be up. Closing the manager
// closes the store's client.
func Open(ctx context.Context, file string) (*election.Manager, error) {
	c, err := Load(file, Options{})
	if err != nil {
		return nil, err
	}
	return c.Open(ctx)
}

// Load reads a file and the environment, which overrides the file. It checks syntax, keys, types and the
// backend's name. It also checks the sections of other stores that this program imports. It does not read
// files that hold secrets. The error is of class backend.ErrInvalid, or that of reading the file.
func Load(file string, o Options) (*Config, error) {
	if file == "" {
		return Parse("", nil, o)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(file, text, o)
}

// Parse is Load for a file that the caller has read. Errors show name as the file's name.
func Parse(name string, yaml []byte, o Options) (*Config, error) {
	in := &input{file: name, text: slices.Clone(yaml), environ: make(map[string]string)}
	environ := o.Environ
	if environ == nil {
		environ = os.Environ()
	}
	for _, v := range environ {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, prefix) {
			in.environ[name] = strings.TrimRight(value, "\r\n") // as of a file
		}
	}
	root, p := parse(name, yaml)
	if p != nil {
		return nil, p.err()
	}
	in.root = root

	d := in.decoder()
	var k general
	d.structure("", in.root, reflect.ValueOf(&k).Elem(), slices.Concat(stores, backend.Names()))
	d.checkBackend(k.Backend)
	for _, name := range backend.Names() {
		d.checkSection(name)
	}
	d.checkEnviron()
	if d.problems != nil {
		return nil, d.err()
	}
	return &Config{Backend: k.Backend, Election: k.Options, Guard: k.Guard, source: d}, nil
}

// OpenBackend makes only the store's client, for election.New. The store need not be up.
func (c *Config) OpenBackend() (backend.Backend, error) {
	return c.source.open(c.Backend)
}

// open makes the client of a store from its section.
func (in *input) open(name string) (backend.Backend, error) {
	d := in.decoder()
	d.secrets = true
	b, err := backend.Open(name, d.decodeSection(name))
	if err == nil {
		return b, nil
	} else if d.problems != nil {
		return nil, d.err()
	}
	if inner, ok := errors.AsType[*Error](err); ok { // about another store, which this section names
		return nil, inner
	}
	problem := strings.TrimPrefix(strings.TrimPrefix(err.Error(), name+": "), backend.ErrInvalid.Error()+": ")
	e := &Error{Source: in.file, Key: name, Problem: problem, err: err}
	if n := in.section(name); n != nil {
		e.Line = n.Line
	}
	return nil, e
}

// Validate makes the checks that Open makes, including the timings against the
// store's limits, and leaves nothing open. It does not call the store.
func (c *Config) Validate(ctx context.Context) error {
	b, err := c.OpenBackend()
	if err != nil {
		return err
	}
	if _, err = c.Election.Complete(b.Guarantees()); err == nil {
		_, err = c.wantsGuard(b)
	}
	if err != nil {
		err = c.explain(err)
	}
	return errors.Join(err, b.Close())
}

// Open starts a manager and calls the store once. If the store denies access (a wrong
// password, a missing right, a missing table), Open returns an error of class backend.ErrDenied that says how
// to fix it. The store need not be up: if it does not answer, Open logs a warning and the manager keeps
// trying. Its Close closes the store's client.
func (c *Config) Open(ctx context.Context) (*election.Manager, error) {
	b, err := c.OpenBackend()
	if err != nil {
		return nil, err
	}
	o := c.Election
	guard, err := c.wantsGuard(b)
	if err != nil {
		return nil, errors.Join(c.explain(err), b.Close())
	}
	var g *electionguard.Guard
	if guard {
		if g, err = c.StartGuard(); err != nil {
			return nil, errors.Join(fmt.Errorf("config: guard: %w", err), b.Close())
		}
		o.Guard = g
	}
	m, err := election.New(b, o)
	if err != nil {
		g.Close()
		return nil, errors.Join(c.explain(err), b.Close())
	}
	switch err := m.Check(ctx); {
	case errors.Is(err, backend.ErrDenied):
		ended, cancel := context.WithCancel(context.Background())
		cancel() // the manager leads nothing, so Close need not wait
		m.Close(ended)
		g.Close() // it holds nothing
		return nil, err
	case err != nil:
		log := cmp.Or(c.Election.Logger, slog.Default())
		log.Warn("the store does not answer yet", "backend", c.Backend, "error", err)
	}
	return m, nil
}

// wantsGuard reports whether this process is to have a guard. An error says why the store allows none.
func (c *Config) wantsGuard(b backend.Backend) (bool, error) {
	if !c.Guard || c.Election.Observer || b.Guarantees().Expiry == backend.ByKernel {
		return false, nil // the kernel needs none
	}
	if err := backend.CanAdopt(b); err != nil {
		return false, &election.OptionError{Option: "Guard", Reason: "cannot be set: " + err.Error()}
	}
	return true, nil
}

var secondWord = regexp.MustCompile(`([a-z])([A-Z])`)

// keyOf returns the key of a field of general: renew_every for RenewEvery.
func keyOf(option string) string {
	return strings.ToLower(secondWord.ReplaceAllString(option, "${1}_${2}"))
}

// explain replaces the option in an error of election.New by its key and place.
func (c *Config) explain(err error) error {
	wrong, ok := errors.AsType[*election.OptionError](err)
	if !ok {
		return fmt.Errorf("config: %w", err)
	}
	key := keyOf(wrong.Option)
	at := cmp.Or(c.source.places[key], place{source: c.source.file})
	return &Error{Source: at.source, Line: at.line, Key: key, Problem: wrong.Text(keyOf), err: wrong}
}
