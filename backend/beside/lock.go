package beside

import (
	"context"
	"math"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Lock is what other programs elect by: one lock for each election. Its methods are safe for concurrent
// use, return soon after ctx is done, and class their errors as a [backend.Backend] does. Package
// besidetest has the rules as tests.
type Lock interface {
	// Read reads the locks of elections, and returns a State for each name, in their order.
	Read(ctx context.Context, elections []string) ([]State, error)

	// Take takes each lock that is still exactly as it was read (Taking.Seen) and that the lock's own
	// rules let go. If the lock is kept for another reason, such as that another program has been
	// quicker, the Result is Refused.
	Take(ctx context.Context, takings []Taking) ([]Result, error)

	// Keep renews locks that are ours in these terms. With Owned.Sealed it seals them; without, it
	// removes a seal. The Err of a lock that is lost says how.
	Keep(ctx context.Context, owned []Owned) ([]Result, error)

	// Drop gives locks back that are ours in these terms, so that anybody can take them at once. A seal
	// stays. A lock that is somebody else's or ours in another term stays as it is, without an error. If
	// Drop returns nil, none of them is ours in these terms.
	Drop(ctx context.Context, owned []Owned) error

	// Wait is called for the elections that a member bids for while their locks are Firm. Where other
	// programs wait in a queue it takes a place there, or keeps the one that it has, so that the member has
	// its turn. Whoever does not bid for some time loses the place, without a call.
	Wait(ctx context.Context, owned []Owned) error

	// Listen returns nil when one of the locks may have changed since it was read. A Lock that hears nothing
	// waits for the end of ctx.
	Listen(ctx context.Context, elections []string) error

	// Preflight has the store check the rights that Take needs, without changing a lock. It returns an error
	// or nil for each name, in their order.
	Preflight(ctx context.Context, elections []string) []error

	// Close frees what the Lock itself has opened. It gives no lock back. A second call does nothing.
	Close() error
}

// A State is one lock as it was read.
type State struct {
	// Term is the term in which a member of this module has taken the lock. 0: none has it. If the lease
	// has another term, the lock counts as Who's.
	Term uint64

	// Free says that a member of this module has given the lock back. Anybody may take it at once.
	Free bool

	// Who is the holder, for people: what is written there. Empty: the lock is nobody's.
	Who string

	// Watch is for how long a member must see the lock unchanged before it takes it, if it is neither
	// Free nor in the lease's term. It is as long as the holder may go on leading by what it has read.
	Watch time.Duration

	// TTL and Age describe the holder Who as [backend.Lease] does.
	TTL, Age time.Duration

	// Version changes with each change of the lock, such as a renewal. It is at most 64 bytes.
	Version string

	// Firm says that the lock's own rules do not let it go yet, whoever watches it: Take would refuse. If it
	// is ours in the term of a lease that has expired, Take still frees it for those who wait.
	Firm bool

	// Sealed says that no other program can take the lock.
	Sealed bool

	// Most is for how long the lock can be relied on at all from now, such as until clocks change.
	// 0: there is no such moment. A bid with a longer TTL is refused.
	Most time.Duration

	// Err says why this election cannot have a lock, such as that its name is no key there.
	Err error

	// Seen is what the Lock needs to know of this reading when it is taken. Nobody else looks at it.
	Seen any
}

// Owned names a lock that a member has taken, and its grant.
type Owned struct {
	Election string
	ID       string // of the member; not known in each Drop, for which the term suffices
	Term     uint64 // of the grant of the inner lease
	Sealed   bool   // for Take and Keep: the lock must be sealed
}

// A Taking is an attempt to take one lock.
type Taking struct {
	Owned
	Was State // as it was read
}

// A Result is what has become of one lock. Granted means that a reading after the write has shown it to be
// ours in that term, and sealed if that was asked for.
type Result struct {
	Outcome backend.Outcome

	// ValidFor is for how long, counted from the start of the call, no other program takes the lock. It
	// is more than 0 if the Outcome is Granted.
	ValidFor time.Duration

	State State // as it stands after the call, if Granted or Refused
	Err   error // why there is no outcome, or why it is refused
}

// Always is the ValidFor of a lock that no other program takes, such as a sealed one.
const Always = time.Duration(math.MaxInt64)
