package backend

import "time"

// A Lease is one election's state in the store. It is comparable.
type Lease struct {
	Election string
	Holder   Candidate // zero: vacant. If another program holds it that has no nonces, Nonce is "session X"
	Term     uint64    // of this leadership, or of the last one if vacant; 0: never led, or not known

	// Version is opaque. A challenger must observe it unchanged. Each grant, renewal and
	// release gives it a fresh random part. A change of server changes it, too.
	//
	// All readers get the same, unless one has noticed a restart or restore. It is empty only in
	// a lease that was not read. It has at most 600 bytes.
	Version string

	// TTL is the holder's TTL. Renew is the time between its renewals. Both are zero in a vacant lease.
	TTL, Renew time.Duration

	// Age is how long ago the lease was last written, by the store's clock. It is a hint for
	// the moment of the next reading, and for people.
	Age time.Duration

	// ObserveFor is how long a challenger must observe the lease unchanged before it bids.
	// 0: the lease is free, or the reader's own nonce still holds it, from an earlier bid.
	// Negative ([ExpiresInStore]): the store will free the lease, and nobody bids before.
	ObserveFor time.Duration

	// End is how the last leadership ended, and LastID is the id of its leader. They are empty if unknown, or
	// if no leadership has ended yet. The manager needs them for the failover delay and the incumbent grace.
	End    End
	LastID string

	Request Request // pending, or zero

	// MovedTo and MovedFrom are the marks of a migration, each the name of a backend, or empty. Only Mark
	// changes them: they survive releases and grants. MovedTo is a seal: while it is set, the store grants
	// the lease only to a bid whose Expected shows it, and a manager makes no such bid. So nobody leads
	// through this store. MovedFrom, in the new store, names the store in which the election is sealed.
	MovedTo, MovedFrom string
}

// ExpiresInStore in [Lease.ObserveFor] says that observing does not help: the store frees it by itself.
const ExpiresInStore time.Duration = -1

// Vacant reports whether nobody holds the lease.
func (l Lease) Vacant() bool { return l.Holder.ID == "" && l.Holder.Nonce == "" }

// Unchanged reports whether o shows the same lease, not renewed: then a challenger's observation goes on, and
// a store grants a bid that expects o. It ignores the holder and the request, which Differs compares.
func (l Lease) Unchanged(o Lease) bool {
	return l.Election == o.Election && l.Term == o.Term && l.Version == o.Version &&
		l.ObserveFor == o.ObserveFor && l.MovedTo == o.MovedTo && l.MovedFrom == o.MovedFrom
}

// Differs reports whether Observe must return l to a caller that has seen the lease as seen:
// it is changed, or has another holder or request.
func (l Lease) Differs(seen Lease) bool {
	return !l.Unchanged(seen) || l.Holder != seen.Holder || l.Request != seen.Request
}

// ExpiredFor is how long ago the lease expired by its age; 0 if it is vacant or has not expired.
// It is for people, as ages are: it frees nothing.
func (l Lease) ExpiredFor() time.Duration {
	if l.Vacant() {
		return 0
	}
	return max(0, l.Age-l.TTL)
}

// Held returns what the holder of l passes to Renew, Mark and Release.
func (l Lease) Held() Held {
	return Held{l.Election, l.Holder, l.Term, l.TTL, l.Renew, l.End, l.Age, l.MovedTo, l.MovedFrom}
}

// Held is what Renew, Mark and Release need to know of a lease that was granted.
type Held struct {
	Election   string
	Holder     Candidate
	Term       uint64        // of the grant; 0 in Release: whatever this process holds
	TTL, Renew time.Duration // those of the grant

	// For Release alone: how the leadership ends, and how long ago the holder renewed.
	End End
	Age time.Duration

	MovedTo, MovedFrom string // for Mark alone
}

// ExpiredFor is how long ago the lease expired, counted from its holder's last renewal; 0: it has not.
func (h Held) ExpiredFor() time.Duration { return max(0, h.Age-h.TTL) }

// An End says how a leadership ended.
type End string

const (
	Released End = "released" // in order: after the leader's function had returned
	Failed   End = "failed"   // the lease expired, or was lost and cleared up later
	Deposed  End = "deposed"  // an operator ended it

	Forgotten End = "forgotten" // an operator retired the election: see [Record.Forgotten]
)

// A Bid is a candidate's attempt at the lease of one election.
type Bid struct {
	Election  string
	Candidate Candidate
	TTL       time.Duration // how long the grant lasts if it is never renewed; > 0
	Renew     time.Duration // time between the candidate's renewals; tells followers when to read
	MinTerm   uint64        // the new term must exceed it

	// Expected is the lease as the candidate last observed it, for ObserveFor if that is
	// positive. The store grants the bid only if the lease that it has now is Unchanged from
	// Expected. A lease that the bidder's own nonce holds is an exception: see Backend.Acquire.
	Expected Lease
}

// An Outcome is what became of one item of a batch.
type Outcome uint8

const (
	Unknown Outcome = iota // neither won nor lost: the store may have applied the item, or may yet
	Refused                // this call has certainly not applied the item, and never will
	Granted                // this very call granted or extended the lease
)

// String returns the outcome in lower case.
func (o Outcome) String() string { return [...]string{"unknown", "refused", "granted"}[min(o, 2)] }

// An Answer is the outcome of one bid or renewal.
type Answer struct {
	Lease           // as it stands after this call, if Granted, or Refused without Err
	Outcome Outcome // zero: Unknown

	// ValidFor is for how long, counted from the start of this call, the store keeps the
	// lease for its holder without another renewal. Only if Granted. It is the TTL on a
	// store that does not expire leases, and what is left of the session on one that does.
	ValidFor time.Duration

	// Err says why an item has no outcome, or was refused for another reason than that
	// another candidate holds the lease. It is classed like any error.
	Err error
}

// A Request is an operator's request beside a lease, for one term.
type Request struct {
	Election string
	Term     uint64
	Kind     RequestKind
	ID       string // Nominate and Accept: the nominee's id
	Nonce    Nonce  // Accept: the nominee's nonce
}

// A RequestKind says what is requested. The empty kind withdraws a request.
type RequestKind string

const (
	Nominate RequestKind = "nominate" // ID should lead next; nothing happens until that candidate accepts
	Accept   RequestKind = "accept"   // ready: the leader steps down, then only the nominee bids for a TTL
	Depose   RequestKind = "depose"   // the store refuses the leader's next renewal
)
