package backend

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// An Opener makes a Backend from its section of a configuration. decode fills a
// struct of the backend's own from that section, strictly: an unknown key or a
// wrong type is an error that names the key. The fields are strings, bool, integers,
// time.Duration, []string, map[string]string or Named. Its key is the yaml tag of the field, or else its name in lower case with
// underscores, such as max_ttl. The store need not be reachable.
//
// An Opener calls decode once, before it opens anything, and returns decode's
// error. So a configuration can be checked without opening what it describes.
type Opener func(decode func(into any) error) (Backend, error)

// A Named is another backend that a section names: a text in the struct that decode fills.
// Open makes that backend from its own section.
type Named struct {
	Name string
	Open func() (Backend, error)
}

var registry struct {
	sync.Mutex
	openers map[string]Opener
}

// Register makes a backend available by name, for programs that choose at run time.
// Backends call it from init. It panics if the name is taken.
func Register(name string, open Opener) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.openers[name]; taken {
		panic("backend: Register called twice for " + name)
	}
	if registry.openers == nil {
		registry.openers = make(map[string]Opener)
	}
	registry.openers[name] = open
}

// Open makes the backend that is registered as name. A nil decode is an empty section.
func Open(name string, decode func(into any) error) (Backend, error) {
	registry.Lock()
	open := registry.openers[name]
	registry.Unlock()
	if open == nil {
		return nil, fmt.Errorf("%w: no backend is called %q; this program has: %s (import the backend's package, or backend/all)",
			ErrInvalid, name, strings.Join(Names(), ", "))
	}
	if decode == nil {
		decode = func(any) error { return nil }
	}
	return open(decode)
}

// Names returns the registered names, sorted.
func Names() []string {
	registry.Lock()
	defer registry.Unlock()
	return slices.Sorted(maps.Keys(registry.openers))
}
