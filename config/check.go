package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
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

// Keys returns all keys of this program: the general ones, and those of each store.
func Keys() []Key {
	d := new(input).decoder()
	d.structure("", nil, reflect.ValueOf(new(general)).Elem(), nil)
	for _, name := range backend.Names() {
		d.checkSection(name)
	}
	return d.keys
}

// checkBackend checks that this program has a backend of that name.
func (d *decoder) checkBackend(name string) {
	if name == "" {
		d.add(place{d.file, 0}, "backend", "is not set, neither in the file nor as %s; this program has: %s",
			variable("backend"), strings.Join(backend.Names(), ", "))
	} else if problem := unknownBackend(name); problem != "" {
		d.add(d.places["backend"], "backend", "%s", problem)
	}
}

// unknownBackend says why this program has no backend of that name; "": it has one.
func unknownBackend(name string) (problem string) {
	available := strings.Join(backend.Names(), ", ")
	switch {
	case slices.Contains(backend.Names(), name):
		return ""
	case slices.Contains(stores, name):
		return fmt.Sprintf("%q is not part of this program, which has: %s; to add it, import _ %q",
			name, available, "github.com/go-election/go-election/backend/"+name)
	}
	return fmt.Sprintf("no backend is called %s; this program has: %s", showKey(name), available)
}

// checkSection checks the section of a store. The opener stops at the error, and opens nothing.
func (d *decoder) checkSection(name string) {
	decode := d.decodeSection(name)
	backend.Open(name, func(into any) error {
		decode(into)
		return errors.New("config: only checked")
	})
}

// decodeSection returns a function that fills a backend's struct, and adds problems to those of d.
func (d *decoder) decodeSection(name string) func(into any) error {
	return func(into any) error {
		before := len(d.problems)
		d.structure(name, d.section(name), reflect.ValueOf(into).Elem(), nil)
		return d.problems[before:].err()
	}
}

// serviceLink matches the variables that Kubernetes sets in each pod for each service, such as one
// that is called "election-mysql". It sets ELECTION_MYSQL_PORT to tcp://10.0.0.1:3306 and never to a
// number, so a number there is a user's mistake.
var serviceLink = regexp.MustCompile(
	`^\w*_(SERVICE_HOST=|SERVICE_PORT[_=]|PORT_[0-9]+_(TCP|UDP|SCTP)[_=]|PORT=[a-z]+://)`)

// checkEnviron finds misspelt variables: those with the prefix that belong to no key.
func (d *decoder) checkEnviron() {
	for _, name := range slices.Sorted(maps.Keys(d.environ)) {
		rest := strings.TrimPrefix(name, prefix)
		isOf := func(k Key) bool { return name == k.Variable || name == k.FileVariable }
		switch {
		case slices.ContainsFunc(d.keys, isOf):
		case serviceLink.MatchString(name + "=" + d.environ[name]):
		case strings.HasPrefix(rest, "TEST_"), strings.HasPrefix(rest, "BENCH_"): // of this module's tests
		case slices.Contains([]string{"CONFIG", "NAME", "TERM"}, rest): // of elect
		case slices.ContainsFunc(stores, func(s string) bool { // of a store that is not imported
			return !slices.Contains(backend.Names(), s) && strings.HasPrefix(rest, strings.ToUpper(s)+"_")
		}):
		default:
			d.add(place{clean.Text(name, 100, false), 0}, "", "there is no such key; variables that begin "+
				"with %s configure elections; rename it, or leave it out of config.Options", prefix)
		}
	}
}
