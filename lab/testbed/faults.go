package testbed

import (
	"maps"
	"testing"

	"github.com/go-election/go-election/conformance"
)

// OwnServers runs the cases of the suite that need a server of their own, which start starts for a store.
func OwnServers[S server](
	t *testing.T, h conformance.Harness, start func(testing.TB) (conformance.Store, S),
) {
	h.Only = conformance.Case.OwnServer
	h.NewStore = func(t testing.TB) conformance.Store {
		store, server := start(t)
		maps.Copy(store.Faults, ServerFaults(t, server))
		return store
	}
	conformance.Run(t, h)
}

// ServerFaults returns the faults of the conformance suite that need a server of the test's own.
func ServerFaults(t testing.TB, s server) map[string]conformance.Fault {
	return faultsOf(t, s.daemon)
}

func faultsOf(t testing.TB, victim func() *Daemon) map[string]conformance.Fault {
	var stopped *Daemon
	return map[string]conformance.Fault{
		conformance.FaultRestart: func(bool, string) error {
			s := victim()
			s.Kill(t)
			s.Start(t)
			return nil
		},
		conformance.FaultPause: func(on bool, _ string) error {
			if on {
				stopped = victim()
				stopped.Stop(t)
			} else {
				stopped.Continue(t)
			}
			return nil
		},
	}
}

// LineFaults returns the faults that need a proxy in front of each server.
func LineFaults(proxies ...*Proxy) map[string]conformance.Fault {
	each := func(do func(p *Proxy, on bool)) conformance.Fault {
		return func(on bool, _ string) error {
			for _, p := range proxies {
				do(p, on)
			}
			return nil
		}
	}
	return map[string]conformance.Fault{
		conformance.FaultCut:        each((*Proxy).Cut),
		conformance.FaultCutReplies: each((*Proxy).CutReplies),
	}
}
