package conformance

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/wire"
)

// A Harness says how the suite creates stores of one kind, and how time passes there.
type Harness struct {
	// NewStore creates an empty store. Each trial of a case has its own. If Virtual is set, the suite calls
	// NewStore inside the case's bubble. NewStore cleans up with t.Cleanup.
	NewStore func(t testing.TB) Store

	// Virtual runs each case in a bubble of testing/synctest, where hours take moments. It works for a store
	// in this process, and for a real server whose clock follows the bubble: virtual time stops while the
	// client waits for an answer. The backend must not wait for a goroutine outside the bubble.
	Virtual bool

	// TTL of the leases. It must be within the store's Guarantees. Default: 10 s
	// in virtual time, 1 s in real time.
	TTL time.Duration

	// Late is the extra time that each limit allows for a busy machine or a slow
	// store. Default: 0 in virtual time, 1 s in real time.
	Late time.Duration

	// KnowsMembers says that the store itself knows which members are there. Only then may the Age of one be
	// 0 however long ago it announced itself. Default: false.
	KnowsMembers bool

	// Short shortens the long cases: a day becomes an hour, a thousand rounds become a
	// hundred. In real time they are even shorter.
	Short bool

	// Parallel runs the cases at the same time. It is meant for a server, for which they wait.
	Parallel bool

	// Only selects cases, for a store whose other cases run in another test, such as
	// on a server that all cases share. Nil selects all cases.
	Only func(Case) bool

	// repeated is how often the case was repeated. Each time doubles the TTL.
	repeated int
}

// A Store is one fresh store.
type Store struct {
	// Open connects another client. Each manager has its own.
	Open func(t testing.TB) backend.Backend

	// Kill ends a client as if its process had died: the leases it holds stay in the
	// store. Nil: a client that makes no more calls is the same as a dead one.
	Kill func(backend.Backend)

	// Elsewhere leads a client that Open has returned to another store (on), or back to this
	// one, as a pooler, a proxy or a name that is resolved anew may. The other store is of the same
	// kind, and is as this one was when Elsewhere was called first. Nil: the harness cannot do that.
	Elsewhere func(client backend.Backend, on bool) error

	// Faults holds functions that harm the store itself, by name; see the constants.
	// Faults between client and store need none: [Wrap] produces them.
	Faults map[string]Fault
}

// A Fault begins (on is true) or ends one kind of harm. election names the record, for faults that affect one
// record. The suite only begins a fault that ends by itself, such as a restart.
type Fault func(on bool, election string) error

// Names of faults in [Store.Faults]. A case that needs a fault runs only if it is there.
const (
	FaultRestart      = "restart"       // the server shuts down cleanly and starts again, with all its data
	FaultPause        = "pause-store"   // the server hangs while this is on
	FaultCut          = "cut"           // no data passes between any client and the server
	FaultCutReplies   = "cut-replies"   // requests reach the server, answers do not come back
	FaultFailover     = "failover"      // another server takes over, with all writes or without the last ones
	FaultDeleteRecord = "delete-record" // an operator deletes the election's record
	FaultHide         = "hide"          // rights hide the records from all clients, which may do all else
	FaultPlantRecord  = "plant-record"  // an attacker overwrites the record with hostile text as holder
)

// withDefaults fills in what is zero.
func (h Harness) withDefaults() Harness {
	if h.TTL == 0 {
		h.TTL = time.Second
		if h.Virtual {
			h.TTL = 10 * time.Second
		}
	}
	if h.Late == 0 && !h.Virtual {
		h.Late = time.Second
	}
	return h
}

// A Wire is a [backend.Backend] that passes calls to another one; see [Wrap].
type Wire = wire.Wire

// A Call is one call of a Backend, as the wire saw it.
type Call = wire.Call

// A Fate is what the wire does to a call. The zero Fate passes it.
type Fate = wire.Fate

// Wrap puts a wire before a backend. The wire records every call, and can lose, delay, repeat or spoil it. It
// works with every backend and in virtual time. At first it passes every call.
func Wrap(b backend.Backend) *Wire { return wire.Wrap(b) }
