package conformance

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Harness says how to reach one kind of store, and how time passes there.
type Harness struct {
	// NewStore makes a fresh and empty store. Each case has its own. It is called
	// inside the case's bubble if Virtual, and cleans up with t.Cleanup.
	NewStore func(t testing.TB) Store

	// Virtual runs each case in a bubble of testing/synctest, where hours pass in
	// moments. A store in this process can do that. So can a real server whose
	// clock follows the bubble: time stands still while its answer is on the way.
	// The backend must not wait for a goroutine outside the bubble.
	Virtual bool

	// TTL of the leases. It must lie within the store's Guarantees. Default: 10 s
	// in virtual time, 1 s in real time.
	TTL time.Duration

	// GreatestTTL of trials that are made again because one was void, if
	// Guarantees.MaxTTL is 0. Default: TTL.
	GreatestTTL time.Duration

	// Late is how much later than promised something may happen because the
	// machine is busy or the store slow. Default: 0 in virtual time, 250 ms in
	// real time.
	Late time.Duration

	// Short makes the long cases short: a day becomes an hour, a thousand a
	// hundred. In real time they are shorter still.
	Short bool

	// Parallel runs the cases at the same time, for real time.
	Parallel bool

	// Only chooses among the cases, for a store that has the rest run elsewhere, such
	// as on a server that all cases share. Nil: all that apply.
	Only func(Case) bool

	// voids is how many trials of the case were void. The first two make TTL longer.
	voidTrials int
}

// A Store is one fresh store.
type Store struct {
	// Open connects another client, for one manager.
	Open func(t testing.TB) backend.Backend

	// Kill ends a client as the death of its process would: what it holds stays
	// behind. Nil: to stop calling a client is the same as its death.
	Kill func(backend.Backend)

	// Faults that can be inflicted on the store itself, by name; see the
	// constants. Those on the way to the store need no hook: [Wrap] has them.
	Faults map[string]Fault
}

// A Fault begins (on) or ends one kind of harm. election is for the faults that
// are about one record. A fault that is over at once, such as a restart, is only
// begun.
type Fault func(on bool, election string) error

// Names of faults in [Store.Faults]. Each makes the cases run that need it.
const (
	FaultRestart      = "restart"       // the server stops in order and starts again, keeping everything
	FaultPause        = "pause-store"   // the server hangs while this is on
	FaultCut          = "cut"           // nothing passes between any client and the server
	FaultCutReplies   = "cut-replies"   // requests arrive, answers do not
	FaultFailover     = "failover"      // another server takes over, with everything or without the last writes
	FaultDeleteRecord = "delete-record" // somebody deletes the election's record
	FaultPlantRecord  = "plant-record"  // somebody overwrites the election's record with hostile text as holder
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
		h.Late = 250 * time.Millisecond
	}
	return h
}
