package register

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A Register is a store of one value. Its methods are safe for concurrent use, and return soon after ctx is
// done. Errors wrap a class of package backend and contain no secrets; one of no class counts as
// backend.ErrUnavailable. Package registertest has what every Register must pass.
type Register interface {
	// Get returns the value, and its version; "" if there is no value, which is no error. It is a value
	// that was there after the call began: a copy that lags, or a cache, must not answer.
	Get(ctx context.Context) (value []byte, version string, err error)

	// Swap replaces the value if it has this version, in one step with the comparison. If version is "", it
	// makes the value if there is none. It returns the new version. No version comes twice, not even after
	// the value was deleted. New never writes the same bytes twice, so a hash of them is a version. What only
	// probably differs is none, such as a time, a size, or a counter that a deletion lets begin anew.
	//
	// If the value has another version, or is gone, the error is ErrChanged. Any other error leaves open
	// whether the value was replaced, or will be. A client library that sends a swap again when its answer
	// was lost may make ErrChanged of a success: New finds that out.
	Swap(ctx context.Context, version string, value []byte) (now string, err error)

	// Close frees what the Register opened. It is the last call.
	Close() error
}

// A Waiter is a Register that tells of changes. Then a handover takes milliseconds instead of seconds.
type Waiter interface {
	// Wait returns nil when the value has, or may have, another version, and soon an error when ctx is done.
	Wait(ctx context.Context, version string) error
}

// ErrChanged says that this request has not replaced the value, and never will: the value had another
// version, or another write was under way. If nobody may have won, Swap tries again by itself.
var ErrChanged = fmt.Errorf("%w: the value has changed meanwhile", backend.ErrUnavailable)

// Limits are what a Register allows.
type Limits struct {
	Name           string        // of the backend, for errors, such as "s3"
	MinTTL, MaxTTL time.Duration // of a lease; MinTTL is many times what a Get and a Swap take; both > 0
	MaxBytes       int           // at least 1 MB: up to 1/8 for a session, 0.5 to 2.5 KB for an election
}

// New returns a backend that keeps leases in r, for one manager. It takes over r, which Close closes.
func New(r Register, limits Limits) *lease.Backend { return lease.New(NewDriver(r, limits)) }
