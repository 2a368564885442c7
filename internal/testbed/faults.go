package testbed

import (
	"testing"

	"github.com/go-election/go-election/conformance"
)

// A torment is a server of a test's own: a [Server] or a [Daemon].
type torment interface {
	Kill(t testing.TB)
	Start(t testing.TB)
	Stop(t testing.TB)
	Continue(t testing.TB)
}

// ServerFaults are the faults of the conformance suite that need a server of one's own.
func ServerFaults(t testing.TB, server torment) map[string]conformance.Fault {
	return map[string]conformance.Fault{
		conformance.FaultRestart: func(bool, string) error {
			server.Kill(t)
			server.Start(t)
			return nil
		},
		conformance.FaultPause: func(on bool, _ string) error {
			if on {
				server.Stop(t)
			} else {
				server.Continue(t)
			}
			return nil
		},
	}
}

// LineFaults are those that need a proxy before each server.
func LineFaults(proxies ...*Proxy) map[string]conformance.Fault {
	each := func(do func(p *Proxy, on bool)) conformance.Fault {
		return func(on bool, _ string) error {
			for _, p := range proxies {
				do(p, on)
			}
			return nil
		}
	}
	return map[string]conformance.Fault{conformance.FaultCut: each((*Proxy).Cut), conformance.FaultCutReplies: each((*Proxy).CutReplies)}
}
