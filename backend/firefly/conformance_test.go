package firefly

import (
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// quick is a fleet with short times, whose sessions survive on a busy machine.
var quick = Fleet{FailoverDelay: 2 * time.Second, ConfirmNumber: 3, ConfirmInterval: time.Second, SessionTTL: 4 * time.Second}

// TestConformanceInTheLayoutOfFireflySoft runs the suite among members of this module, as far as the
// layout's guarantees go: the whole contract, and those cases about managers that depend on the
// store most. A crash takes three times as long here as in the native layout.
func TestConformanceInTheLayoutOfFireflySoft(t *testing.T) {
	t.Parallel()
	agent := testbed.SharedConsul(t)
	h := conformance.Harness{
		TTL: 2 * time.Second, Late: 5 * time.Second, // Consul may end sessions late
		Short: true, Parallel: true, NewStore: func(t testing.TB) conformance.Store { return newStore(t, agent) },
	}
	h.Names = append(strings.Split("ARXONWTMGV", ""),
		"S4", "S1 a leader whose requests are lost", "S1 one leader through a cut", "S1 one leader through a deleted record", "L1 a takeover after a crash is in time")
	conformance.Run(t, h)
}

func newStore(t testing.TB, agent *testbed.ConsulAgent) conformance.Store {
	l, proxy := newLab(t, agent), agent.Proxy(t)
	key := &Backend{root: l.rootOf()}
	// While a prefix has no key, any write elsewhere wakes those that wait for it.
	if _, err := l.root.KV().Put(&api.KVPair{Key: key.lock("another"), Value: []byte("x")}, nil); err != nil {
		t.Fatal(err)
	}
	var deleted atomic.Int32
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend { return l.open(t, consul.Options{Address: proxy.Addr()}) },
		Faults: map[string]conformance.Fault{
			// Deletes our key and theirs alternately.
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				which := key.record(election)
				if deleted.Add(1)%2 == 0 {
					which = key.lock(election)
				}
				_, err := l.root.KV().Delete(which, nil)
				return err
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				pair, _, err := l.root.KV().Get(key.record(election), nil)
				if err != nil || pair == nil {
					return err
				}
				var value record
				decode(pair, &value)
				value.ID, value.Address, value.Metadata = "<script>\x1b]0;\u202e", "javascript:alert(1)\n", "\x00\x1b[2J"
				value.Heartbeat += 2
				pair.Value = encode(value)
				_, err = l.root.KV().Put(pair, nil)
				return err
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxy))
	return store
}
