package backend

import (
	"context"
	"time"
)

// A Backend is one process's access to a shared store of leases.
// The package documentation has the rules that all methods share.
// Methods are safe for concurrent use and return soon after ctx is done.
type Backend interface {
	// Acquire makes one attempt at the lease of each election bid on. It never
	// waits for a holder to go away. A bid is Granted if the lease is still
	// exactly [Bid.Expected], or if what it finds is a leftover of the bidder's own
	// nonce: that is granted anew, by compare-and-swap and with a new term, or
	// released. (Not after a failover that may have lost a later grant: then it is
	// to be watched like anybody else's.) Otherwise it is Refused and the answer
	// holds the lease as it now stands. The grant clears any request, and its term
	// exceeds Bid.MinTerm.
	Acquire(ctx context.Context, bids []Bid) ([]Answer, error)

	// Renew extends leases by a write that the store refuses after another
	// grant, a deposition, a deletion of the record or a change of server. A
	// read would not do: it may be answered by a replica that has been cut off.
	// Each renewal gives the lease a fresh random Heartbeat; it counts as Granted if
	// and only if the store confirms that very heartbeat. Where the store expires leases
	// by itself (ByStore) nobody watches heartbeats: what is written may be the session
	// alone, and the Heartbeat may stay; it counts as Granted if and only if the store has
	// then confirmed, with a majority of its servers, that session and lease are
	// still ours. The answer carries the request
	// beside the lease. Of the leases passed in, Election, Holder, Term, TTL and
	// Renew matter; TTL and Renew are those of the grant.
	Renew(ctx context.Context, held []Held) ([]Answer, error)

	// Mark writes MovedTo and MovedFrom of leases, and is a renewal besides: all
	// that is said of Renew holds, and Heartbeat or Ref changes, whoever expires leases.
	// It is called by package backend/migration. A store without [Guarantees].Marks
	// answers with ErrInvalid.
	Mark(ctx context.Context, held []Held) ([]Answer, error)

	// Release ends leases at once: the record stays, vacant, with its term and
	// with held[i].End as the reason. A lease that is not held in this term is
	// left alone, and that is no error. Term 0 stands for whatever this
	// Backend's nonce holds or has queued in that election. After nil, none of
	// the leases is held; after an error any of them may be, and the manager
	// calls again.
	Release(ctx context.Context, held []Held) error

	// Observe reads, and returns those of the leases in seen that have changed:
	// Term, Heartbeat, Ref, ObserveFor, Holder, Request, MovedTo or MovedFrom. A zero lease with only a name is
	// always returned, also if the store has no record of it (Term 0). Observe does
	// not wait.
	Observe(ctx context.Context, seen []Lease) (changed []Lease, err error)

	// Listen waits until it may pay to Observe, and returns nil then. Returning
	// too early is allowed, so is missing a change if [Guarantees].Poll says
	// so; then seen has only one lease of each holder, of those who hold most
	// first. Otherwise seen has all leases to listen to, and a change that came
	// between seen and the call must not be missed. When ctx ends it returns
	// ctx.Err(). It is called only if Guarantees.Push.
	Listen(ctx context.Context, seen []Lease) error

	// Request writes requests of an operator, or a nominee's consent, beside a lease.
	// It neither grants nor ends anything, and does not touch the heartbeat. A request
	// is scoped to [Request.Term]: if the election has another term by now, the
	// request is not written and the error is [ErrStale].
	Request(ctx context.Context, requests []Request) error

	// List returns up to limit records of elections whose names are not less
	// than from, in byte order of names.
	List(ctx context.Context, from string, limit int) ([]Record, error)

	// Announce writes this process's member record: one small record, whatever
	// the number of elections. The manager calls it once a TTL.
	Announce(ctx context.Context, m Member) error

	// Members returns up to limit members whose nonces are not less than from,
	// in byte order of nonces. Members that have not announced themselves for
	// two of their TTLs may be left out.
	Members(ctx context.Context, from string, limit int) ([]Member, error)

	// Guarantees says what this store can promise. It never changes and does
	// not touch the store.
	Guarantees() Guarantees

	// Close frees what the Backend itself opened. It does not release leases.
	// No other call is under way. A second Close does nothing.
	Close() error
}

// A Candidate is who asks.
type Candidate struct {
	ID       string // chosen by the user, 1 to 255 bytes (see [CheckID]); may outlive the process
	Nonce    string // 32 lower-case hex digits, fresh for each manager (see [NewNonce])
	Address  string // where to reach it; up to 255 bytes, may be empty; never dialled by this module
	Metadata string // free text, up to 4 KiB (see [CheckText])
}

// A Lease is one election's state in the store. It is comparable.
type Lease struct {
	Election  string
	Holder    Candidate // zero: vacant
	Term      uint64    // of this leadership, or of the last one if vacant; 0: never led, or not kept (legacy layouts)
	Heartbeat uint64    // a fresh random value at every grant, renewal and release; see Backend.Renew for stores that expire leases

	// TTL is what the holder asked for, whoever reads it. Renew is how often
	// the holder means to renew. Both are zero if vacant.
	TTL, Renew time.Duration

	// Age is how long ago the store believes the lease was last written. It is
	// a hint for choosing the moment of the next reading, and for people. In Release,
	// it is how long ago the holder renewed.
	Age time.Duration

	// Ref is opaque to the manager, which compares it and hands it back: what
	// else a challenger must see unchanged, such as the answering server and the
	// server that last wrote. Renewals leave it alone. At most 512 bytes.
	Ref string

	// ObserveFor is how long a challenger must see the lease unchanged before it
	// bids. 0: free now, or a leftover of the reader's own nonce that a bid would
	// be granted. Negative ([ExpiresInStore]): the store will free it.
	ObserveFor time.Duration

	// End is how the last leadership ended, and LastID and LastNonce are who it was;
	// empty if unknown or if the lease is held and no leadership came before. They
	// carry failover delay and incumbent grace. In Release, End is how this leadership ends.
	End               End
	LastID, LastNonce string

	Request Request // pending, or zero

	// MovedTo and MovedFrom are the marks of a migration, each the name of a
	// backend, or empty. Only Mark changes them: they stay through releases and
	// grants. MovedTo is a seal: while it is set the lease is granted only to a bid
	// whose Over shows it, and a manager makes no such bid. So nobody leads by
	// this store any more.
	MovedTo, MovedFrom string
}

// Held is what Renew, Mark and Release need to know of a lease that this process was
// granted.
type Held struct {
	Election   string
	Holder     Candidate
	Term       uint64        // of the grant; 0 in Release: whatever this process holds or has queued
	TTL, Renew time.Duration // those of the grant

	// Of Release alone: how the leadership ends, and how long ago the holder renewed.
	End End
	Age time.Duration

	MovedTo, MovedFrom string // of Mark alone
}

// Lapsed is how long ago the lease expired, by the last renewal of its holder; 0: it has not.
func (h Held) Lapsed() time.Duration { return max(0, h.Age-h.TTL) }

// Held returns what the holder of l passes to Renew, Mark and Release.
func (l Lease) Held() Held {
	return Held{l.Election, l.Holder, l.Term, l.TTL, l.Renew, l.End, l.Age, l.MovedTo, l.MovedFrom}
}

// ExpiresInStore as [Lease.ObserveFor] says that watching does not help: the store
// expires the lease by itself.
const ExpiresInStore time.Duration = -1

// Vacant reports whether nobody holds the lease.
func (l Lease) Vacant() bool { return l.Holder.ID == "" && l.Holder.Nonce == "" }

// Unchanged reports whether o shows the same lease, unrenewed: the condition for
// a challenger's watch to go on.
func (l Lease) Unchanged(o Lease) bool {
	return l.Election == o.Election && l.Term == o.Term && l.Heartbeat == o.Heartbeat && l.Ref == o.Ref && l.ObserveFor == o.ObserveFor &&
		l.MovedTo == o.MovedTo && l.MovedFrom == o.MovedFrom
}

// Differs reports whether l, as it is read now, is news to who saw the lease as
// seen, in the sense of [Backend].Observe: it is changed, or has another holder or
// request.
func (l Lease) Differs(seen Lease) bool {
	return !l.Unchanged(seen) || l.Holder != seen.Holder || l.Request != seen.Request
}

// An End says how a leadership ended.
type End string

const (
	Released End = "released" // in order: after the leader's function had returned
	Failed   End = "failed"   // it ran out, or was lost and tidied up later
	Deposed  End = "deposed"  // an operator ended it

	Forgotten End = "forgotten" // an operator retired the election: see [Record.Forgotten]
)

// A Bid is a candidate's request for the lease of one election.
type Bid struct {
	Election  string
	Candidate Candidate
	TTL       time.Duration // how long the grant lasts if never renewed; > 0
	Renew     time.Duration // how often the candidate will renew; tells followers when to read
	MinTerm   uint64        // the new term must exceed it

	// Expected is the lease as it was last seen, watched for its Watch if it has
	// one. The store grants only if this is still the lease, byte for byte in
	// Term, Heartbeat and Ref.
	Expected Lease
}

// An Outcome is what became of one item of a batch.
type Outcome uint8

const (
	Unknown Outcome = iota // not known, perhaps not yet done: neither won nor lost
	Refused                // certainly not done by this call, and never will be
	Granted                // this very call granted or extended it
)

// String returns the outcome in lower case.
func (o Outcome) String() string { return [...]string{"unknown", "refused", "granted"}[min(o, 2)] }

// An Answer is the outcome of one bid or renewal.
type Answer struct {
	Lease           // as it stands after this call, if Granted or Refused
	Outcome Outcome // zero: Unknown

	// ValidFor is for how long, from the start of this call, the store keeps the
	// lease for its holder if it never hears of it again. Only if Granted. It is
	// the TTL on a store that does not expire leases; on one with sessions it is
	// what the session is known to have left.
	ValidFor time.Duration

	// Err says why an item has no outcome, or was refused for another reason
	// than that somebody else holds the lease. Classed like any error.
	Err error
}

// A Request is an operator's request beside a lease, scoped to one term.
type Request struct {
	Election string
	Term     uint64
	Kind     RequestKind
	ID       string // Nominate and Accept: the nominee's id
	Nonce    string // Accept: the nominee's nonce
}

// A RequestKind says what is requested. The empty kind withdraws a request.
type RequestKind string

const (
	Nominate RequestKind = "nominate" // ID should lead next; nothing happens until it accepts
	Accept   RequestKind = "accept"   // the nominee is there and ready: the holder steps down in order, then only the nominee bids for a while
	Depose   RequestKind = "depose"   // the holder's next renewal is refused
)

// A Record is all that a store keeps about an election.
type Record struct {
	Lease
	Elected time.Time    // when the present leadership began, by the store's clock; zero if vacant
	History []Leadership // past leaderships, newest first, up to [MaxHistory]
}

// MaxHistory is how many past leaderships a record keeps.
const MaxHistory = 8

// A Leadership is a past leadership. Its times are for people.
type Leadership struct {
	Term uint64    `json:"term"`
	ID   string    `json:"id"`
	From time.Time `json:"from"` // by the store's clock, UTC
	To   time.Time `json:"to"`   // the latest that it can have led, as far as the store knows
	End  End       `json:"end"`
}

// A Member is a process that takes part, leader or not.
type Member struct {
	Candidate
	Stage     string        // migration stage, up to 32 bytes, or empty
	Elections string        // those for which it campaigns or that it leads: see [ElectionList]
	TTL       time.Duration // how often it announces itself
	Age       time.Duration // how long ago it last did, by the store's clock; set by Members. 0: the store itself knows that it is there
}

// Guarantees is what a store can promise. The conformance suite checks it claim
// by claim: a false claim is a failure.
type Guarantees struct {
	Name string // of the backend, as it is registered

	MinTTL      time.Duration // least TTL; at least 1
	MaxTTL      time.Duration // greatest TTL; 0: none, or only the store knows (then a bid above it is ErrDenied, or ErrInvalid if nobody can raise it)
	MaxSession  time.Duration // greatest TTL + 2 * Renew, for which a session of the store is kept; 0: any
	ClockMargin time.Duration // least safety margin that the store's own expiry needs; 0: none

	Expiry   Expiry        // who decides that a lease has run out
	Takeover time.Duration // longest time from a lease's end to the moment a challenger can have it, beyond its TTL and one reading

	Push bool // Listen hears of changes
	Poll bool // it may miss some: each lease must also be read after each expected renewal

	Marks        bool // Mark works, and the marks that it leaves are kept
	Exclusive    bool // two candidates never hold the same lease (manual assignment cannot promise it)
	DurableTerms bool // terms grow through the loss of any one server and of any record
}

// Expiry says who decides that a lease has run out.
type Expiry string

const (
	ByChallengers Expiry = "challengers" // who watched it for its TTL
	ByStore       Expiry = "store"       // its sessions or keys expire
	ByKernel      Expiry = "kernel"      // with the process
	ByOperator    Expiry = "operator"    // by hand
)
