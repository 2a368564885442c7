package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Driver is access to a store of versioned items. It knows nothing about leases: [New] makes a
// backend.Backend of it, and package leasetest has what every Driver must pass.
//
// Methods are safe for concurrent use and return soon after ctx is done. Errors are classed like
// those of a Backend and contain no secrets; the package adds the name and what was done.
type Driver interface {
	// Read returns one item for each key, in the order of keys, which are distinct. It reads them as a
	// majority, or the one server that decides, has them after the call began. A store that cannot promise
	// that may answer with older records and sessions for a while: Write refuses what is based on them. No
	// answer is older than an earlier one of this Driver in the same epoch, unless WentBack grows.
	//
	// If the key of Metas is among keys, View.Records is set, too. Items may be read one after the other:
	// then the meta item and the count come last, and another epoch in between is ErrEpoch.
	Read(ctx context.Context, keys []Key) (View, error)

	// Write applies each change by itself, as a whole or not at all. No item that one change puts is in
	// another change of the call; several changes may check the same item. A version that this store cannot
	// have is refused as an old one is.
	//
	// epoch and wentBack are those of the View by which the changes were made. If the store has another
	// epoch, or this Driver has noticed since that it went back, err or the Err of the results is ErrEpoch:
	// nothing was applied, unless the store cannot compare the epoch in the same step; then the outcome is
	// Unknown.
	//
	// verify is for renewals: the one change of the call puts a session, and verify has the records that it
	// stands for, perhaps one several times. Once the change is granted, the driver compares their versions,
	// in the same step or later, never before: see Written.Stale.
	//
	// If err is not nil, changes without an outcome are Unknown, and nothing was verified.
	Write(ctx context.Context, epoch string, wentBack int, changes []Change, verify []Item) (Written, error)

	// List returns up to limit items of a kind with names not less than from, in byte order of names. Fewer
	// than limit are all that there are. It is as fresh as Read; Records is not set.
	List(ctx context.Context, kind Kind, from string, limit int) (View, error)

	// Limits never change, and the call does not use the store.
	Limits() Limits

	// Close frees what the Driver opened. It is the last call.
	Close() error
}

// A Listener is a Driver whose store tells of changes.
type Listener interface {
	// Listen calls on with the changes that come after position, until on returns false; that is no error.
	// It returns nil if it cannot tell what came after position.
	//
	// A store that only says that a record has changed calls on without items: what was read before may then
	// lack it. After a record the driver may tell the session that it names, even if it tells no renewals.
	//
	// known are the items of interest as they were read. Listen may tell of others, too.
	Listen(ctx context.Context, position uint64, known []Item, on Heard) error
}

// Heard gets items in the order in which they were written, and the position up to which all were told. It
// returns false if it needs no more.
type Heard = func(items []Item, position uint64) (more bool)

// A Keeper is a Driver whose store deletes the session of a process soon after the process has ended or was
// cut off. There the session shows that its process takes part, and need not be written again for that.
type Keeper interface {
	// Kept reports whether the session that this Driver has made last is there, as far as it knows. It does
	// not use the store, and returns false if the store cannot be reached.
	Kept() bool
}

// ErrEpoch says that another store has answered than the one that was read: it was rebuilt,
// restored or failed over. It wraps backend.ErrUnavailable.
var ErrEpoch = fmt.Errorf("%w: another store answers than the one that was read", backend.ErrUnavailable)

// Limits are what a store allows.
type Limits struct {
	// Name is the name of the backend, for errors.
	Name string

	// MinTTL and MaxTTL are the least and the greatest TTL that may be granted. Both are greater than 0.
	// MinTTL is at least ten times what a slow write takes, a second for most servers. MaxTTL is for how long
	// nobody leads where it is not known what was granted; five minutes for most.
	MinTTL, MaxTTL time.Duration

	// Loses says that another epoch may lack acknowledged writes though no operator paused, as after a
	// failover. Then MaxTTL stands for every TTL that was granted.
	Loses bool

	// Batch is the greatest number of puts and checks in one change; at least 4. A change of so many records,
	// of some KB each, fits into one request.
	Batch int

	// Checks is the greatest number of checks in a change that puts one session. A renewal of more leases
	// verifies their records. It is 0 where a check could block, since somebody may lock the item.
	Checks int

	// EditsUnnoticed is how long an item in verify may go on to look unchanged after somebody else than this
	// package has edited or deleted it: challengers watch for that much longer. It is 0 where Write compares
	// the items themselves.
	EditsUnnoticed time.Duration

	// MaxValue is the greatest size of an encoded value in bytes; at least 64 KiB. More than the constant
	// MaxValue counts as that.
	MaxValue int

	// Now is the clock for terms, for times that people read, and for how long ago the epoch has changed. It
	// may jump, as clocks do that are set. Default: time.Now.
	Now func() time.Time
}

// A Kind says what an item is. It is part of the item's key.
type Kind string

const (
	Records  Kind = "record"  // a *Record, by the name of its election
	Sessions Kind = "session" // a *Session, by the nonce of its process
	Metas    Kind = "meta"    // the one *Meta, with an empty name
)

// A Key names an item.
type Key struct {
	Kind Kind
	Name string
}

// A Value is what an item has: a *[Record], a *[Session] or a *[Meta]. It must not be modified,
// except that Driver.Write calls [SetWrite]. [Encode] and [Decode] make text of it and back. Times
// of a Value that was not made by Decode must be those that JSON can have.
type Value interface {
	number() *int64
}

// An Item is a value in the store, as it was read.
type Item struct {
	Key

	// Version is opaque. No two writes of a key have the same. It is "" if nothing is there now.
	Version string

	// Created is opaque. It differs whenever the item was deleted and made again. It may be "" if a late
	// request cannot make the item again.
	Created string

	// Order grows with each write in the store. It is 0 if unknown, as where a Listener tells no items.
	Order uint64

	// Value is nil if nothing is there, or nothing that this package can read.
	Value Value

	// Edited says that somebody else than this package wrote the item last: see the function [Edited].
	Edited bool

	// Old says that the store went back since the item was written, so that a later write may be lost.
	Old bool

	// Process says what the store knows of the process of a session, whether the session is there or not.
	Process Process

	// Remembered is set in items for Write that are from an earlier call. A store that may use a version
	// again after it went back must compare their values, too; one without a Value only by its version.
	Remembered bool

	// Age is how long ago the item was written, by the store's clock. It is a hint. Negative means unknown; 0
	// says that it was written just now.
	Age time.Duration
}

// A Process is what a store knows of a process. Most know nothing.
type Process uint8

const (
	Unproven Process = iota // its leases expire if they are not renewed
	Lives                   // certainly, though it may be stopped: nobody else is granted its leases
	Ended                   // certainly: its leases are free at once
)

// A View is the answer of a reading.
type View struct {
	// Items are those that were asked for.
	Items []Item

	// Epoch is the identity of the store, of printable text. Within one epoch answers do not go back.
	Epoch string

	// WentBack is how often this Driver has noticed that the store of this epoch went back.
	WentBack int

	// Position is that of the reading in the history of the store, from where Listen can begin. 0: there is
	// none, so a count begins at 1.
	Position uint64

	// Records is how many items of the kind Records there are, if the meta item was read. They are counted in
	// the same step as the meta item or after it, so that a change that requires the meta item counts no
	// record twice. Neither is older than any other item.
	Records int64
}

// A Change is done as a whole or not at all.
type Change struct {
	// Check has items that must still have their versions. One with Version "" must not be there.
	Check []Item

	// Put has the items that are written, if all conditions hold.
	Put []Put

	// Notify says that listeners wait for this change: a grant, a release or a request, but no renewal.
	Notify bool
}

// A Put replaces an item, which must still have its version.
type Put struct {
	Over  Item
	Value Value // nil: the item is deleted
}

// A Result is what became of a change.
type Result struct {
	// Outcome is Granted if the change was applied, and Refused if its conditions did not hold. A refused
	// change may have been applied before, by a copy of the same request. Unknown: the change may have been
	// applied, or may yet be, unless Err is ErrDenied or ErrInvalid: then it was certainly not.
	Outcome backend.Outcome
	Err     error

	// Items has one for each put of a change that was granted, without Value; if deleted without Version.
	Items []Item
}

// Written is the answer of a write.
type Written struct {
	// Results has one for each change.
	Results []Result

	// Stale are the indexes of the items in verify that have another version, if the change was granted.
	Stale []int
}
