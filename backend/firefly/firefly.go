package firefly

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/backend/single"
	"github.com/go-election/go-election/internal/consulagent"
)

// Name is the registered name of this backend.
const Name = "firefly"

// maxTTL is Consul's greatest lock-delay.
const maxTTL = time.Minute

// A Fleet has the configuration of the FireflySoft.LeaderElection members with which an election
// is shared. A wrong value affects their timing, but not safety.
type Fleet struct {
	// FailoverDelay is their ReElectionSilencePeriod: nobody can lead for this long after a
	// leader's session has ended. It is the lock-delay of this process's session. No TTL may be
	// longer. 1 s to 1 minute. Default: 10 s.
	FailoverDelay time.Duration `yaml:"failover_delay" json:"failover_delay"`

	// ConfirmNumber and ConfirmInterval are their LeaderOfflineConfirmNumber and
	// LeaderOfflineConfirmInterval. When the leader has gone, all but the last leader wait for
	// their product, so that it can return. 1 to 255 (-1: none) and 1 ms to 10 minutes.
	// Default: 3 and 10 s.
	ConfirmNumber   int           `yaml:"confirm_number" json:"confirm_number"`
	ConfirmInterval time.Duration `yaml:"confirm_interval" json:"confirm_interval"`

	// SessionTTL is the TTL of this process's session. Consul ends the leadership of a dead
	// process after one to two of them. No TTL may be longer. It must not be less than the
	// servers' session_ttl_min, which is 10 s by default. 1 s to 10 minutes. Default: 10 s.
	SessionTTL time.Duration `yaml:"session_ttl" json:"session_ttl"`
}

// A Backend shares elections with members of FireflySoft.LeaderElection. It implements
// [backend.Backend]. docs/design/firefly.md has the keys, the argument and the waiting times.
type Backend struct {
	agent *consulagent.Agent
	root  string // of the elections' keys
	fleet Fleet
	owner single.Owner

	sessionMutex chan struct{} // held while the session is made or renewed

	mu          sync.Mutex
	session     string // of this process; empty: none
	listenIndex uint64 // up to which Listen has told of changes; 0: none yet
	lastCleanup time.Time
	id          string              // of this process's candidate
	seen        map[string]uint64   // the greatest term read, by election
	held        map[string]heldLock // what this process may hold, by election
}

var (
	_ backend.Backend     = (*Backend)(nil)
	_ backend.Marker      = (*Backend)(nil)
	_ backend.Preflighter = (*Backend)(nil)
	_ backend.Inspector   = (*Backend)(nil)
)

// Format prints only the name of the type, whatever the verb: the fields may be secret.
func (f *Backend) Format(s fmt.State, _ rune) { fmt.Fprint(s, "firefly.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var c struct {
			consul.Options `yaml:",inline"`
			Fleet          `yaml:",inline"`
		}
		if err := decode(&c); err != nil {
			return nil, err
		}
		return Open(c.Options, c.Fleet)
	})
}

// Open checks its arguments and returns a Backend. Options.Prefix is only for the members' keys. Open
// does not connect to the agent. Errors are [backend.ErrInvalid].
func Open(o consul.Options, fleet Fleet) (*Backend, error) {
	fleet, err := fleet.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", Name, backend.ErrInvalid, err)
	}
	agent, err := consulagent.Connect(Name, consulagent.Options(o))
	if err != nil {
		return nil, err
	}
	f := &Backend{agent: agent, fleet: fleet, sessionMutex: make(chan struct{}, 1), seen: make(map[string]uint64), held: make(map[string]heldLock)}
	f.setRoot("leader-election/")
	return f, nil
}

// Location implements [backend.Located]. It names the keys that are shared with FireflySoft.
func (f *Backend) Location() string { return f.agent.Location(f.root) }

// setRoot sets the beginning of the elections' keys. FireflySoft always uses the same.
func (f *Backend) setRoot(root string) {
	f.root = root
	f.agent.Policy = fmt.Sprintf("key_prefix %q { policy = \"write\" } key_prefix %q { policy = \"write\" } session_prefix \"\" { policy = \"write\" }", root, f.members())
}

func (f *Backend) members() string           { return f.agent.Prefix + "/members/" }
func (f *Backend) lock(name string) string   { return f.root + name + "/leader" }
func (f *Backend) record(name string) string { return f.root + name + "/go-election" }

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
// docs/design/firefly.md for what it cannot promise.
func (f *Backend) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name:   Name,
		MinTTL: time.Second, MaxTTL: min(f.fleet.FailoverDelay, f.fleet.SessionTTL),
		Expiry: backend.ByStore,
		// Consul waits for twice the session's TTL, and checks once a second at worst
		// whether a session has ended.
		Takeover:  2*f.fleet.SessionTTL + f.fleet.confirmWait() + time.Second,
		Push:      true,
		Exclusive: true, DurableTerms: true,
	}
}

// closeLimit bounds the cleanup in Close.
const closeLimit = 250 * time.Millisecond

// Close closes the connections. It does not release leases. It destroys the session only if
// this process holds nothing.
func (f *Backend) Close() error {
	if !f.owner.Close() {
		return nil
	}
	f.mu.Lock()
	id, idle := f.session, len(f.held) == 0
	f.mu.Unlock()
	if id != "" && idle {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		f.agent.Client.Session().Destroy(id, write(ctx))
	}
	f.agent.Close()
	return nil
}

// enter begins a call for the candidate with this nonce, or for no candidate ("").
func (f *Backend) enter(ctx context.Context, verb string, nonce backend.Nonce) error {
	return f.agent.Wrap(verb, f.owner.Enter(ctx, nonce))
}

// Inspect implements [backend.Inspector].
func (f *Backend) Inspect(ctx context.Context, _, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := f.enter(ctx, "inspect", ""); err != nil {
		return nil, err
	}
	return f.agent.Inspect(ctx)
}

// Preflight implements [backend.Preflighter]. It tries the keys of grants, and makes the session, as
// for a bid.
func (f *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	err := f.enter(ctx, "preflight", bids[0].Candidate.Nonce)
	if err == nil {
		_, err = f.ensureSession(ctx, bids[0].Candidate)
	}
	errs, sets := make([]error, len(bids)), make([][]string, len(bids))
	for i, bid := range bids {
		sets[i] = []string{f.lock(bid.Election), f.record(bid.Election)}
		errs[i] = err
	}
	if err == nil {
		errs = f.agent.TryWrites(ctx, sets)
	}
	for i, err := range errs {
		errs[i] = f.agent.Wrap(describe("preflight", 1, bids[i].Election), err)
	}
	return errs
}

// describe names a call and its election or the number of leases, for errors.
func describe(verb string, n int, first string) string {
	if n == 1 {
		return fmt.Sprintf("%s %q", verb, first)
	}
	return fmt.Sprintf("%s %d leases", verb, n)
}

func write(ctx context.Context) *api.WriteOptions { return (&api.WriteOptions{}).WithContext(ctx) }

// Fence returns an operation for the front of a transaction on the caller's own keys in the same
// Consul, as [consul.Backend.Fence] does.
func (f *Backend) Fence(election string, term uint64) (*api.KVTxnOp, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.held[election]
	if h.term != term || term == 0 {
		return nil, fmt.Errorf("firefly: fence %q in term %d: %w", election, term, backend.ErrStale)
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: f.lock(election), Index: h.index}, nil
}
