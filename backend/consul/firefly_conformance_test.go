package consul

import (
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/internal/testbed"
)

// quick is a fleet with short times, whose sessions survive on a busy machine.
var quick = Fleet{FailoverDelay: 2 * time.Second, ConfirmNumber: 3, ConfirmInterval: time.Second, SessionTTL: 4 * time.Second}

// TestConformanceInTheLayoutOfFireflySoft runs the suite among members of this module, as far as the
// layout's guarantees go: the whole contract, and those cases about managers that depend on the
// store most. A crash takes three times as long here as in the native layout.
func TestConformanceInTheLayoutOfFireflySoft(t *testing.T) {
	t.Parallel()
	agent := testbed.SharedConsul(t)
	h := harness(func(t testing.TB) conformance.Store { return newFireflyStore(t, agent) })
	h.Late = 5 * time.Second // Consul may end sessions late
	h.Names = append(strings.Split("ARXONWTMGV", ""),
		"S4", "S1 a leader whose requests are lost", "S1 one leader through a cut", "S1 one leader through a deleted record", "L1 a takeover after a crash is in time",
		"S6 an expired leadership does not come back",
		"S8 a lost answer starts no leadership", "S8 a late bid leaves no orphaned lease", "P7 two processes with one id are reported")
	conformance.Run(t, h)
}

// openFirefly returns a Firefly with keys of its own, so that other tests do not wake it.
func openFirefly(t testing.TB, o Options, fleet Fleet, root string) *Firefly {
	t.Helper()
	f, err := OpenFirefly(o, fleet)
	if err != nil {
		t.Fatal(err)
	}
	f.setRoot(root)
	t.Cleanup(func() { f.Close() })
	return f
}

func newFireflyStore(t testing.TB, agent *testbed.ConsulAgent) conformance.Store {
	prefix := "test/" + string(backend.NewNonce()[:16])
	root, proxy := admins(t, agent), agent.Proxy(t)
	t.Cleanup(func() { wipe(root, prefix) })
	key := &Firefly{root: prefix + "/leader-election/"}
	// While a prefix has no key, any write elsewhere wakes those that wait for it.
	if _, err := root.KV().Put(&api.KVPair{Key: key.lock("another"), Value: []byte("x")}, nil); err != nil {
		t.Fatal(err)
	}
	var deleted atomic.Int32
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			return openFirefly(t, Options{Address: proxy.Addr(), Prefix: prefix}, quick, key.root)
		},
		Faults: map[string]conformance.Fault{
			// Deletes our key and theirs alternately.
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				which := key.record(election)
				if deleted.Add(1)%2 == 0 {
					which = key.lock(election)
				}
				_, err := root.KV().Delete(which, nil)
				return err
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				pair, _, err := root.KV().Get(key.record(election), nil)
				if err != nil || pair == nil {
					return err
				}
				var value fireflyRecord
				decode(pair, &value)
				value.ID, value.Address, value.Metadata = "<script>\x1b]0;\u202e", "javascript:alert(1)\n", "\x00\x1b[2J"
				value.Heartbeat += 2
				pair.Value = encode(value)
				_, err = root.KV().Put(pair, nil)
				return err
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxy))
	return store
}
