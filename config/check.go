package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// A Key is one value that can be configured.
type Key struct {
	Name     string // in the file: "ttl", "mysql.dsn"
	Variable string // in the environment: "ELECTION_MYSQL_DSN"
	Type     string // in words

	// The key and the variable that name a file with the value: "mysql.dsn_file",
	// "ELECTION_MYSQL_DSN_FILE". Only strings of a store's section have them.
	FileName, FileVariable string
}

// Keys returns all keys that this program knows: the general keys and those of each
// store that it imports.
func Keys() []Key {
	d := new(input).decoder()
	d.structure("", nil, reflect.ValueOf(new(general)).Elem(), nil)
	for _, name := range backend.Names() {
		d.checkSection(name)
	}
	return d.keys
}

// checkGeneral checks the values of the general keys as far as that needs no store.
func (d *decoder) checkGeneral(k general) {
	if k.Backend == "" {
		d.add(place{d.file, 0}, "backend", "is not set, neither in the file nor as %s; this program has: %s", variable("backend"), strings.Join(backend.Names(), ", "))
	} else if problem := unknownBackend(k.Backend); problem != "" {
		d.add(d.placeOf("backend"), "backend", "%s", problem)
	}

	bad := func(e *election.OptionError) { d.problems = append(d.problems, d.wrong(e)) }
	for _, text := range []election.Options{{ID: k.ID}, {Address: k.Address}, {Metadata: k.Metadata}, {Priority: k.Priority}} {
		_, err := text.Complete(backend.Guarantees{})
		if e, ok := errors.AsType[*election.OptionError](err); ok {
			bad(e)
		}
	}

	for f, field := range reflect.ValueOf(k.Options).Fields() {
		x, ok := field.Interface().(time.Duration)
		key := keyOf(f.Name)
		if _, set := d.places[key]; !ok || !set {
			continue
		}
		switch positive := key != "failover_delay" && key != "incumbent_grace" && key != "reclaim"; {
		case x <= 0 && positive:
			bad(&election.OptionError{Option: f.Name, Value: x, Must: "more than", Reason: "leave it out for the default"})
		case x < 0:
			bad(&election.OptionError{Option: f.Name, Value: x, Must: "at least"})
		}
	}
}

// placeOf returns where a key was set, or the file.
func (d *decoder) placeOf(key string) place {
	if at, ok := d.places[key]; ok {
		return at
	}
	return place{d.file, 0}
}

// wrong describes a bad option by its key and place.
func (d *decoder) wrong(e *election.OptionError) *Error {
	key := keyOf(e.Option)
	at := d.placeOf(key)
	return &Error{Source: at.source, Line: at.line, Key: key, Problem: e.Text(keyOf), err: e}
}

// unknownBackend describes why this program has no backend of that name. It returns ""
// if the program has one.
func unknownBackend(name string) (problem string) {
	available := strings.Join(backend.Names(), ", ")
	switch {
	case slices.Contains(backend.Names(), name):
		return ""
	case slices.Contains(stores, name):
		return fmt.Sprintf("%q is not part of this program, which has: %s; to add it, import _ \"github.com/go-election/go-election/backend/%s\"", name, available, name)
	}
	hint := ""
	if near := nearest(name, backend.Names()); near != "" {
		hint = "; did you mean " + strconv.Quote(near) + "?"
	}
	return fmt.Sprintf("no backend is called %s; this program has: %s%s", showKey(name), available, hint)
}

// errChecked stops an opener after it has decoded its section.
var errChecked = errors.New("config: only checked")

// checkSection checks the section of a store without opening it.
func (d *decoder) checkSection(name string) {
	decode := d.decodeSection(name)
	b, err := backend.Open(name, func(into any) error {
		decode(into)
		return errChecked
	})
	if err == nil {
		b.Close() // it should have returned errChecked
	}
}

// decodeSection returns a function that fills a backend's struct from its section. The
// function adds problems to those of d.
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

// serviceLink matches the variables that Kubernetes sets in each pod for each service,
// without the service's name. A service may be called "election-mysql".
var serviceLink = regexp.MustCompile(`(^|_)(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// isServiceLink reports whether Kubernetes has set a variable for a service. It sets
// ELECTION_MYSQL_PORT to tcp://10.0.0.1:3306 and never to a number, so a number there is
// a user's mistake.
func isServiceLink(rest, value string) bool {
	m := serviceLink.FindStringSubmatch(rest)
	return m != nil && (m[2] != "PORT" || strings.Contains(value, "://"))
}

// electVariables are the variables that "elect run" sets for its command, which may use
// this package, and the one that names the file of elect.
var electVariables = []string{"CONFIG", "NAME", "TERM"}

// checkEnviron finds misspelt variables: those with the prefix that belong to no key.
func (d *decoder) checkEnviron() {
	var known []string
	for _, k := range d.keys {
		if known = append(known, k.Variable); k.FileVariable != "" {
			known = append(known, k.FileVariable)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.environ)) {
		rest := strings.TrimPrefix(name, prefix)
		switch {
		case slices.Contains(known, name), isServiceLink(rest, d.environ[name]),
			strings.HasPrefix(rest, "TEST_"), strings.HasPrefix(rest, "BENCH_"), // of this module's tests
			slices.Contains(electVariables, rest),
			slices.ContainsFunc(stores, func(s string) bool { // of a store that is not imported
				return !slices.Contains(backend.Names(), s) && strings.HasPrefix(rest, strings.ToUpper(s)+"_")
			}):
			continue
		}
		hint := "variables that begin with " + prefix + " configure elections; rename it, or leave it out of config.Options"
		if near := nearest(name, known); near != "" {
			hint = "did you mean " + near + "?"
		}
		d.add(place{clean.Text(name, 100, false), 0}, "", "there is no such key; %s", hint)
	}
}
