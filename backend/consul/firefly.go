package consul

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// A Fleet has the configuration of the FireflySoft.LeaderElection members with which an election
// is shared. A wrong value affects their timing, but not safety.
type Fleet struct {
	// FailoverDelay is their ReElectionSilencePeriod: nobody can lead for this long after a
	// leader's session has ended. It is the lock-delay of this process's session. No TTL may be
	// longer. 1 s to 1 minute. Default: 10 s.
	FailoverDelay time.Duration

	// ConfirmNumber and ConfirmInterval are their LeaderOfflineConfirmNumber and
	// LeaderOfflineConfirmInterval. When the leader has gone, all but the last leader wait for
	// their product, so that it can return. 1 to 255 (-1: none) and 1 ms to 10 minutes.
	// Default: 3 and 10 s.
	ConfirmNumber   int
	ConfirmInterval time.Duration

	// SessionTTL is the TTL of this process's session. Consul ends the leadership of a dead
	// process after one to two of them. No TTL may be longer. It must not be less than the
	// servers' session_ttl_min, which is 10 s by default. 1 s to 10 minutes. Default: 10 s.
	SessionTTL time.Duration
}

// A Firefly shares elections with members of FireflySoft.LeaderElection, a library for .NET, on
// Consul. It implements [backend.Backend].
//
//	store, err := consul.OpenFirefly(consul.Options{Address: "127.0.0.1:8500"}, consul.Fleet{})
//
// A member of this module never believes that it leads while another member of this module
// does, or while the lock carries the session of a FireflySoft member. A FireflySoft member has
// no deadline: one that was stopped or cut off believes that it leads until it reads the key
// again. Ids must be unique in the whole fleet. docs/design/consul.md, "Members of FireflySoft",
// has the keys, the argument, the waiting times and the rights.
type Firefly struct {
	base  *Backend
	root  string
	fleet Fleet

	mu   sync.Mutex
	id   string              // of this process's candidate
	seen map[string]uint64   // the greatest term read, by election
	held map[string]heldLock // what this process may hold, by election
}

var (
	_ backend.Backend = (*Firefly)(nil)
	_ backend.Marker  = (*Firefly)(nil)
)

// Format prints only the name of the type, whatever the verb: the fields may be secret.
func (f *Firefly) Format(s fmt.State, _ rune) { fmt.Fprint(s, "consul.Firefly") }

// OpenFirefly checks its arguments and returns a Firefly. Options.Prefix is only for the members'
// keys. OpenFirefly does not connect to the agent. Errors are [backend.ErrInvalid].
func OpenFirefly(o Options, fleet Fleet) (*Firefly, error) {
	fleet, err := fleet.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("consul: %w: %w", backend.ErrInvalid, err)
	}
	base, err := Open(o)
	if err != nil {
		return nil, err
	}
	f := &Firefly{base: base, fleet: fleet, seen: make(map[string]uint64), held: make(map[string]heldLock)}
	f.setRoot("leader-election/")
	base.listened.large = true // Listen does not return these keys
	return f, nil
}

// Location implements [backend.Located]. It names the keys that are shared with FireflySoft.
func (f *Firefly) Location() string { return f.base.place(f.root) }

// setRoot sets the beginning of the elections' keys. FireflySoft always uses the same.
func (f *Firefly) setRoot(root string) {
	f.root, f.base.keys.leases = root, root
}

func (f *Firefly) lock(name string) string   { return f.root + name + "/leader" }
func (f *Firefly) record(name string) string { return f.root + name + "/go-election" }

// A heldLock is a leadership of this process: its term, and the index at which it locked the key.
// Term 0: a bid was not answered.
type heldLock struct{ term, index uint64 }

func (f Fleet) withDefaults() (Fleet, error) {
	for _, d := range []*time.Duration{&f.FailoverDelay, &f.ConfirmInterval, &f.SessionTTL} {
		if *d == 0 {
			*d = 10 * time.Second
		}
	}
	if f.ConfirmNumber == 0 {
		f.ConfirmNumber = 3
	}
	switch {
	case f.FailoverDelay < time.Second || f.FailoverDelay > maxTTL:
		return f, fmt.Errorf("failover_delay is %v; it must lie between 1s and %v", f.FailoverDelay, maxTTL)
	case f.ConfirmNumber < -1 || f.ConfirmNumber > 255:
		return f, fmt.Errorf("confirm_number is %d; it must lie between 1 and 255, or be -1 for none", f.ConfirmNumber)
	case f.ConfirmInterval < time.Millisecond || f.ConfirmInterval > 10*time.Minute:
		return f, fmt.Errorf("confirm_interval is %v; it must lie between 1ms and 10m", f.ConfirmInterval)
	case f.SessionTTL < time.Second || f.SessionTTL > 10*time.Minute:
		return f, fmt.Errorf("session_ttl is %v; it must lie between 1s and 10m", f.SessionTTL)
	}
	return f, nil
}

// confirmWait is how long a candidate waits that was not the last leader.
func (f Fleet) confirmWait() time.Duration {
	return max(f.FailoverDelay, time.Duration(max(f.ConfirmNumber, 0))*f.ConfirmInterval)
}

// Guarantees says what Consul can promise to members of this module in such a fleet. See
// docs/design/consul.md, "Members of FireflySoft", for what it cannot promise.
func (f *Firefly) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name:   Name,
		MinTTL: time.Second, MaxTTL: min(f.fleet.FailoverDelay, f.fleet.SessionTTL),
		Expiry: backend.ByStore,
		// Consul waits for twice the session's TTL, and checks once a second at worst
		// whether a session has ended.
		Takeover: 2*f.fleet.SessionTTL + f.fleet.confirmWait() + time.Second,
		Push:     true,
		Marks:    true, Exclusive: true, DurableTerms: true,
	}
}

// Close closes the connections. It does not release leases. It destroys the session only if
// this process holds nothing.
func (f *Firefly) Close() error {
	b := f.base
	if !b.owner.Close() {
		return nil
	}
	f.mu.Lock()
	idle := len(f.held) == 0
	f.mu.Unlock()
	if id := b.session.get(); id != "" && idle {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		b.client.Session().Destroy(id, write(ctx))
	}
	b.idle()
	return nil
}

// Fence is [Backend.Fence] for this layout.
func (f *Firefly) Fence(election string, term uint64) (*api.KVTxnOp, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.held[election]
	if h.term != term || term == 0 {
		return nil, fmt.Errorf("consul: fence %q in term %d: %w", election, term, backend.ErrStale)
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: f.lock(election), Index: h.index}, nil
}
