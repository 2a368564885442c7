package testbed

import (
	"strings"
	"sync"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
)

// Elsewhere returns a store on one server whose clients can be led to another one. open opens a client at an address.
// makeCopy copies what is here, once: when the first client is led there.
func Elsewhere(here, other *Daemon, open func(t testing.TB, addr string) backend.Backend, makeCopy func() error) conformance.Store {
	var proxies sync.Map // of *Proxy, by backend.Backend
	var copied sync.Once
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			proxy := here.Proxy(t)
			b := open(t, proxy.Addr())
			proxies.Store(b, proxy)
			return b
		},
		Elsewhere: func(b backend.Backend, on bool) (err error) {
			copied.Do(func() { err = makeCopy() })
			proxy, _ := proxies.Load(b)
			target := here
			if on {
				target = other
			}
			proxy.(*Proxy).SetTarget(target.Addr())
			proxy.(*Proxy).Reset()
			return err
		},
		Faults: map[string]conformance.Fault{},
	}
}

// IsElsewhere selects the cases in which another store answers: see [conformance.Harness].Only.
func IsElsewhere(c conformance.Case) bool {
	return strings.Contains(c.Name, " led to ") || strings.HasPrefix(c.Name, "another store ")
}
