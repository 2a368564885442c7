package backend

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A Named is another backend that a section names: a text in the configuration.
// Open makes that backend from its own section.
type Named struct {
	Name string
	Open func() (Backend, error)
}

var registry = struct {
	sync.Mutex
	openers map[string]func(decode func(into any) error) (Backend, error)
}{openers: map[string]func(func(any) error) (Backend, error){}}

// Register makes a backend available by name, for programs that choose at run time. Backends call it from
// init. It panics if the name is taken.
//
// section has the defaults of a struct of the backend's own. A copy of it is filled from the section of a
// configuration, strictly: an unknown key or a wrong type is an error that names the key. Then open gets it.
// The fields are strings, bool, integers, time.Duration, []string, map[string]string or Named. A key is the
// yaml tag of the field, or else its name in lower case with underscores (max_ttl). The store may be down.
func Register[Section any, B Backend](name string, section Section, open func(Section) (B, error)) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.openers[name]; taken {
		panic("backend: Register called twice for " + name)
	}
	registry.openers[name] = func(decode func(any) error) (Backend, error) {
		filled := section
		if err := decode(&filled); err != nil { // config may only check, and open nothing
			return nil, err
		}
		return open(filled)
	}
}

// Open makes the backend that is registered as name. A nil decode is an empty section.
func Open(name string, decode func(into any) error) (Backend, error) {
	registry.Lock()
	open := registry.openers[name]
	registry.Unlock()
	if open == nil {
		return nil, fmt.Errorf("%w: no backend is called %q (import it, or backend/all); there are: %s",
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
