package config

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Key is one value that can be configured.
type Key struct {
	Name     string // in the file: "ttl", "mysql.dsn"
	Variable string // in the environment: "ELECTION_MYSQL_DSN"
	Type     string // in words

	// A text of a store's section can be read from a file of its own, which these
	// two name: "mysql.dsn_file", "ELECTION_MYSQL_DSN_FILE". Empty for others.
	FileName, FileVariable string
}

// Keys returns all keys that this program knows: the general ones and those of
// each store that it imports. Of o, only Prefix matters.
func Keys(o *Options) []Key {
	t := &text{prefix: DefaultPrefix}
	if o != nil && o.Prefix != "" {
		t.prefix = o.Prefix
	}
	d := t.decoder()
	d.structure("", nil, reflect.ValueOf(new(top)).Elem(), nil)
	for _, name := range backend.Names() {
		d.checkSection(name)
	}
	return d.keys
}

// checkTop checks the values that need no store to be judged.
func (d *decoder) checkTop(k top) {
	at := func(key string) place {
		if at, ok := d.places[key]; ok {
			return at
		}
		return place{d.file, 0}
	}
	if k.Backend == "" {
		d.add(place{d.file, 0}, "backend", "is not set, neither here nor as %s; this program has: %s", d.variable("backend"), strings.Join(backend.Names(), ", "))
	} else if problem := unknownBackend(k.Backend); problem != "" {
		d.add(at("backend"), "backend", "%s", problem)
	}

	for _, text := range []struct {
		key, value string
		most       int
	}{{"id", k.ID, backend.MaxID}, {"address", k.Address, backend.MaxAddress}, {"metadata", k.Metadata, backend.MaxMetadata}} {
		if err := backend.CheckText(text.key, text.value, text.most, text.key == "metadata"); err != nil {
			d.add(at(text.key), text.key, "%s", strings.TrimPrefix(err.Error(), backend.ErrInvalid.Error()+": "))
		}
	}

	v := reflect.ValueOf(k)
	for i := range v.NumField() {
		x, ok := v.Field(i).Interface().(time.Duration)
		key := v.Type().Field(i).Tag.Get("yaml")
		if _, set := d.places[key]; !ok || !set || d.failed(key) {
			continue
		}
		switch least := key != "failover_delay" && key != "incumbent_grace"; {
		case x < 0:
			d.add(at(key), key, "%v is less than 0", x)
		case x == 0 && least:
			d.add(at(key), key, "must be more than 0; leave it out for the default")
		}
	}
}

// unknownBackend says why no backend of that name can be had, if so.
func unknownBackend(name string) (problem string) {
	has := strings.Join(backend.Names(), ", ")
	switch {
	case slices.Contains(backend.Names(), name):
		return ""
	case slices.Contains(stores, name):
		return fmt.Sprintf("%q is not part of this program, which has: %s; to add it, import _ \"github.com/go-election/go-election/backend/%s\", or backend/all for every one", name, has, name)
	}
	hint := ""
	if near := nearest(name, backend.Names()); near != "" {
		hint = "; did you mean " + strconv.Quote(near) + "?"
	}
	return fmt.Sprintf("no backend is called %s; this program has: %s%s", showKey(name), has, hint)
}

// failed reports whether something is wrong with a key already.
func (d *decoder) failed(key string) bool {
	return slices.ContainsFunc(d.problems, func(err error) bool {
		e := err.(*Error)
		return e.Key == key || e.Source == d.variable(key)
	})
}

// errChecked ends an opener that was only to show its keys.
var errChecked = errors.New("config: only checked")

// checkSection checks the section of a store without opening it.
func (d *decoder) checkSection(name string) {
	decode := d.decodeSection(name)
	b, err := backend.Open(context.Background(), name, func(into any) error {
		decode(into)
		return errChecked
	})
	if err == nil {
		b.Close() // it should have minded
	}
}

// decodeSection returns what fills a backend's struct from its section. Problems
// are added to d's.
func (d *decoder) decodeSection(name string) func(into any) error {
	return func(into any) error {
		v := reflect.ValueOf(into)
		if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
			return fmt.Errorf("config: %w: backend %s decodes into %T, not into a pointer to a struct", backend.ErrInvalid, name, into)
		}
		before := len(d.problems)
		d.structure(name, d.section(name), v.Elem(), nil)
		return d.problems[before:].err()
	}
}

// serviceLink is what Kubernetes adds to the name of a service. Each pod gets
// such variables for each service, and one may be called "election-mysql".
var serviceLink = regexp.MustCompile(`(^|_)(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// ofService reports whether a variable is such a one. ELECTION_MYSQL_PORT is, if it is
// tcp://10.0.0.1:3306; who writes a number there means something.
func ofService(rest, value string) bool {
	m := serviceLink.FindStringSubmatch(rest)
	return m != nil && (m[2] != "PORT" || strings.Contains(value, "://"))
}

// ofCommand are the variables that "elect run" sets for the command that it runs,
// which may well use this package itself, and the one that names elect's file.
var ofCommand = []string{"CONFIG", "NAME", "TERM", "SOCKET"}

// checkEnviron looks for variables that were meant for us, and misspelt.
func (d *decoder) checkEnviron() {
	var known []string
	for _, k := range d.keys {
		if known = append(known, k.Variable); k.FileVariable != "" {
			known = append(known, k.FileVariable)
		}
	}
	var names []string
	for name := range d.environ {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		rest := strings.TrimPrefix(name, d.prefix)
		switch {
		case slices.Contains(known, name), ofService(rest, d.environ[name]),
			strings.HasPrefix(rest, "TEST_"), strings.HasPrefix(rest, "BENCH_"), // of this module's tests
			slices.Contains(ofCommand, rest),
			slices.ContainsFunc(stores, func(s string) bool { // of a store that is not imported
				return !slices.Contains(backend.Names(), s) && strings.HasPrefix(rest, strings.ToUpper(s)+"_")
			}):
			continue
		}
		hint := "variables that begin with " + d.prefix + " configure elections; rename it, or choose another prefix in config.Options"
		if near := nearest(name, known); near != "" {
			hint = "did you mean " + near + "?"
		}
		d.add(place{backend.Clean(name, 100, false), 0}, "", "there is no such key; %s", hint)
	}
}
