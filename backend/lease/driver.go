package lease

import (
	"cmp"
	"context"
	"errors"
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
	// Read reads items as a majority, or the one server that decides, has them after the call
	// began. A store that cannot promise that may answer with older items for a while: whatever is done
	// because of them, Write compares. View.Items has one item for each key, in the order of keys; what
	// is not there has Version "". If the key of Metas is among keys, View.Records is set; meta item and
	// number are those of one moment, and not older than any other item.
	Read(ctx context.Context, keys []Key) (View, error)

	// Write applies each change by itself, as a whole or not at all. No item that one change puts
	// is in another change of the call. The store refuses a change in another epoch. If there is
	// one change, verify may have items that were there: their versions are compared in the same
	// step or later. If err is not nil, changes without an outcome are Unknown, and nothing was verified.
	// ErrEpoch says that another store has answered than that of epoch, or that it went back more
	// often than wentBack says.
	Write(ctx context.Context, epoch string, wentBack int, changes []Change, verify []Item) (Written, error)

	// List returns up to limit items of a kind with names not less than from, in byte order of
	// names.
	List(ctx context.Context, kind Kind, from string, limit int) (View, error)

	// Limits never change, and the call does not use the store.
	Limits() Limits

	// Now is the clock for terms and for times that people read: the store's if that costs no
	// call, otherwise this machine's. It may be set at any time. The time since another store answered is
	// counted by it, too: time.Now counts that rightly though the clock is set.
	Now() time.Time

	// Close frees what the Driver opened. A second call does nothing.
	Close() error
}

// A Listener is a Driver whose store tells of changes.
type Listener interface {
	// Listen calls on with changes that come after position, until on returns false, which is
	// no error. One call of on has items in the order in which they were written, and the
	// position up to which all were told. A store that only says that something has changed
	// calls on with no items. known are the items of interest as they were read, mostly without
	// Values; all others of the store may be told, too. Listen returns nil if it cannot tell what
	// came after position.
	Listen(ctx context.Context, position uint64, known []Item, on func(items []Item, position uint64) (more bool)) error
}

// A Keeper is a Driver whose store deletes the session of a process by itself, soon after the process has ended or
// was cut off. So a member whose session is there is there, too, and need not write it again.
type Keeper interface {
	// Kept reports whether the session that this Driver has made last is there, as far as it knows. It does not
	// use the store, and returns false if the store cannot be reached.
	Kept() bool
}

// ErrEpoch says that another store has answered than the one that was read: it was rebuilt,
// restored or failed over. It wraps backend.ErrUnavailable.
var ErrEpoch = fmt.Errorf("%w: another store answers than the one that was read", backend.ErrUnavailable)

var errBusy = fmt.Errorf("%w: other processes kept changing the same items", backend.ErrUnavailable)

// Limits are what a store allows.
type Limits struct {
	Name           string        // of the backend, for errors
	MinTTL, MaxTTL time.Duration // of a TTL; both > 0
	Loses          bool          // another epoch may lack acknowledged writes though no operator paused: then MaxTTL stands for every TTL that was granted
	Batch          int           // the greatest number of puts and checks in one change; at least 4
	Checks         int           // the greatest number of checks in a change with one put of a session; 0: Batch-1; negative: none, since somebody may lock an item that is checked
	EditsUnnoticed time.Duration // for how long Write may not tell that an item in verify was edited or deleted by somebody else than this package; usually 0
	ReadsToo       bool          // Write may answer Change.Read, in the same request
	MaxValue       int           // the greatest size of an encoded value in bytes; at least 64 KiB; more than MaxValue counts as that
}

// checks returns the greatest number of checks in a change with one put of a session.
func (l *Limits) checks() int { return cmp.Or(l.Checks, l.Batch-1) }

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
	kind() Kind
	number() *int64
}

// An Item is a value in the store, as it was read.
type Item struct {
	Key
	Version string // opaque; no two writes of a key have the same; "": nothing is there, whatever was deleted
	Created string // opaque; differs whenever the item was deleted and made again; "" if a late request cannot make it again
	Order   uint64 // grows with each write in the store; 0: unknown, for a store that does not tell of items
	Value   Value  // nil: not there, or not what this package can read

	Edited     bool // somebody else than this package wrote it last: see the function Edited
	Old        bool // the store went back since it was written: a later write may be lost
	Remembered bool // from an earlier call: the store must compare the value, too, if it may count versions anew

	// Age is how long ago it was written, by the store's clock; a hint. Negative: unknown.
	Age time.Duration

	rememberedAt *time.Time // when Age was so; nil: now
}

// A View is the answer of a reading.
type View struct {
	Items    []Item
	Epoch    string // the identity of the store, of printable text; within one, answers do not go back
	WentBack int    // how often this Driver has noticed that the store of this epoch went back
	Position uint64 // of the reading in the history of the store; 0 if it does not tell of items
	Records  int64  // how many records there are, if Meta was read; counted with the items or after them
}

// A Change is done as a whole or not at all.
type Change struct {
	Check  []Item // items that must still have their versions; "": must not be there
	Put    []Put
	Lasts  time.Duration // of a session that is put: the store may delete it when it was not written for so long; 0: the driver chooses
	Notify bool          // a listener waits for it
	Read   []Key         // what the caller reads next; only if Limits.ReadsToo, and there is one change
}

// A Put replaces an item, which must still have its version.
type Put struct {
	Over  Item
	Value Value // nil: the item is deleted
}

// A Result is what became of a change.
type Result struct {
	// Outcome is Granted if the change was applied. It is Refused if its conditions did not hold;
	// then a copy of the same request may have come first.
	Outcome backend.Outcome
	Err     error  // why there is no outcome
	Items   []Item // if Granted: one for each put, without its Value; of a deletion, without Version
	View    *View  // if Granted: the answer of Driver.Read to Change.Read, after the change; nil: the caller calls Read
}

// Written is the answer of a write.
type Written struct {
	Results []Result // one for each change
	Stale   []int    // which of the items in verify have another version, if the change was granted
}

// errUnknown is the error of a change without an outcome and without a reason.
var errUnknown = errors.New("the store did not say whether it has applied the change")
