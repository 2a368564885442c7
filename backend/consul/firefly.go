package consul

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// A Fleet says how the members of FireflySoft.LeaderElection are configured that
// an election is shared with. A wrong value breaks their timing, and no promise.
type Fleet struct {
	// FailoverDelay is their ReElectionSilencePeriod: nobody can lead for this long after
	// a leader's session has ended. It is the lock-delay of our session. 1 s to 1
	// minute. Default: 10 s. No TTL may be longer.
	FailoverDelay time.Duration

	// ConfirmNumber and ConfirmInterval are their LeaderOfflineConfirmNumber and
	// LeaderOfflineConfirmInterval: who did not lead last waits for one times the
	// other when the leader has gone, so that it can come back. 1 to 255 (-1: none)
	// and 1 ms to 10 minutes. Default: 3 and 10 s.
	ConfirmNumber   int
	ConfirmInterval time.Duration

	// SessionTTL is that of our session. Consul ends the leadership of a process that has
	// died after one to two of them. Not less than session_ttl_min of the servers, which is
	// 10 s by default, 1 s to 10 minutes. Default: 10 s. No TTL may be longer.
	SessionTTL time.Duration
}

// A Firefly shares elections with members of FireflySoft.LeaderElection, a library
// for .NET, on Consul. It implements [backend.Backend], with the session, the calls
// and the member's keys of [Backend], and no more: there a lease is a record that
// challengers watch, and here it is a lock that Consul takes away. Hence two types,
// neither of which asks in its verbs which layout it serves.
//
//	store, err := consul.OpenFirefly(ctx, consul.Options{Address: "127.0.0.1:8500"}, consul.Fleet{})
//
// # Layout
//
//	leader-election/<name>/leader        theirs: locked by the leader's session; its value is the leader's id
//	leader-election/<name>/go-election   ours, JSON: term, holder, request, history; locked along with it by a leader of ours
//	election/members/<nonce>             ours, below the prefix: who takes part
//
// The session has a TTL, behaviour release, and the fleet's failover delay as lock-delay.
// A lock is given up by unlocking it, never by a DELETE and never by destroying the session
// (both would do harm: the next could lead beside the old leader; nobody could lead for
// the failover delay).
//
// # What could two processes each believe?
//
// One of ours leads by a transaction that locks both keys. It is pinned to their
// indexes, as read, at which nobody had locked the first. Its renewal renews the
// session, and then reads both keys, consistently: all that counts is whose session
// has locked them, never what the value says. It trusts its lease for a TTL from
// before the first of these requests.
//
// Whoever else locks the key does so when it carries no session. So our session has
// lost it after that reading, for one of these reasons:
//
//   - It has ended: by itself, which Consul does not do sooner than a TTL of the session
//     after it was renewed, so that trust is over; or by somebody's hand, or a failing
//     check: then the lock-delay, which is not shorter than the TTL either, is still to
//     pass. Each of the two is enough. (The lock-delay alone would not be: servers that
//     all start again from a snapshot have forgotten it.)
//   - We have unlocked it, having ceased to lead.
//   - Somebody has unlocked or deleted the key by hand. Reset of a FireflySoft member
//     deletes it too! Ours then wait for the failover delay, and trust is over. Members of
//     FireflySoft do not wait, and may lead beside ours until its next renewal: with such
//     members no deletion is harmless.
//
// So one of ours never believes to lead while another does, or while the key carries the session
// of a FireflySoft member. This is all that can be promised. A FireflySoft
// member has no deadline: one that was stopped, or cut off, goes on believing after
// its session has ended, until its next look. Nothing that we do prevents that. It
// also believes to lead when another has the same id: ids must be unique in the
// whole fleet, over all languages.
//
// # Who waits for whom
//
//	a leader that resigns                ours lead at once; theirs after number × interval
//	a leader of ours that dies           after one to two TTLs of its session: then it, if it
//	                                     is back with the same id, after the failover delay; all others after
//	                                     number × interval, and not sooner
//	a leader of theirs that dies         the same after its check has failed (6 s to 10 s)
//
// The waiting is in [backend.Lease].ObserveFor, whatever the failover delay and incumbent grace of the manager
// are, which come on top. They wait for nothing else of ours: no nomination.
//
// # Terms
//
// Their key has no lasting one: LockIndex begins anew when it is deleted. So terms
// are kept in our key, and grow from one leadership of ours to the next as in the native
// layout. A leadership of theirs has none, and is shown with that of our last one before
// it: what is fenced by terms is safe from our old leaders, and not from theirs.
//
// # Moving
//
// A seal must hold for members who know nothing of it. So it is a lock: Mark locks their
// key in the same transaction for a session that has neither TTL nor checks.
// FireflySoft's members see a leader that is there, and wait. That session belongs to
// no process: its id stands in our key, where everybody finds it, and it hangs on a node of the catalog
// named go-election-seal, which Mark registers: on an agent's node it would end when
// that agent leaves. Who holds the lease and clears the mark takes the lock back in one
// transaction, and then destroys the session. A seal is broken by who deregisters that
// node, destroys the session, or deletes the key (Reset of a FireflySoft member does); the mark in our
// key still keeps ours from leading, and sealing again makes it good.
//
// # Rights
//
//	key_prefix "leader-election/" { policy = "write" }
//	key_prefix "election/members/" { policy = "write" }
//	session_prefix "" { policy = "write" }
//	node "go-election-seal" { policy = "write" }    # to move the election only
//
// # Load
//
// Two requests for each renewal, of up to 32 elections, and two for each further 32. Followers
// wait for changes, and read nothing until there are some.
type Firefly struct {
	base  *Backend
	root  string
	fleet Fleet

	mu   sync.Mutex
	id   string              // of the candidate that is served
	seen map[string]uint64   // the greatest terms
	held map[string]heldLock // what may be held
}

var _ backend.Backend = (*Firefly)(nil)

// Format prints the name of the type and nothing that may be secret, whatever the
// verb.
func (f *Firefly) Format(s fmt.State, _ rune) { fmt.Fprint(s, "consul.Firefly") }

// OpenFirefly checks its arguments and returns a Firefly. Of the options, Prefix is
// for the members' keys only. It does not talk to the agent, which may be down.
// Errors are [backend.ErrInvalid].
func OpenFirefly(ctx context.Context, o Options, fleet Fleet) (*Firefly, error) {
	fleet, err := fleet.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("consul: %w: %w", backend.ErrInvalid, err)
	}
	base, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	f := &Firefly{base: base, fleet: fleet, seen: make(map[string]uint64), held: make(map[string]heldLock)}
	f.setRoot("leader-election/")
	base.listened.many = true // what is waited for brings nothing along
	return f, nil
}

// Location implements [backend.Located]: where the keys are that are shared with FireflySoft.
func (f *Firefly) Location() string { return f.base.place(f.root) }

// setRoot says what the keys of elections begin with: for FireflySoft, the same
// everywhere.
func (f *Firefly) setRoot(root string) {
	f.root, f.base.keys.leases = root, root
}

func (f *Firefly) lock(name string) string   { return f.root + name + "/leader" }
func (f *Firefly) record(name string) string { return f.root + name + "/go-election" }

// A leadership is a leadership of ours: its term, and the index of the lock since. Term 0: a
// bid was not answered, or what is there is not as it should be.
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

// returning is how long a candidate waits that did not lead last.
func (f Fleet) confirmWait() time.Duration {
	return max(f.FailoverDelay, time.Duration(max(f.ConfirmNumber, 0))*f.ConfirmInterval)
}

// Guarantees says what Consul can promise to members of this module in such a
// fleet; see the type's documentation for what it cannot.
func (f *Firefly) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name:   Name,
		MinTTL: time.Second, MaxTTL: min(f.fleet.FailoverDelay, f.fleet.SessionTTL),
		Expiry: backend.ByStore,
		// Consul waits for twice the session's TTL, and looks for its end once a
		// second at worst.
		Takeover: 2*f.fleet.SessionTTL + f.fleet.confirmWait() + time.Second,
		Push:     true,
		Marks:    true, Exclusive: true, DurableTerms: true,
	}
}

// Close closes the connections. It does not release leases: the session stays
// unless nothing hangs on it.
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
