package mysqltable

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A rowOwner says to whom a row belongs, given the lease.
type rowOwner uint8

const (
	noRow       rowOwner = iota // there is no row
	thisModule                  // the lease's holder or last holder; or vacated by this module
	blank                       // no program: edited manually
	thisProcess                 // edited manually: this process shall lead
	otherProgram
)

// A snapshot is one election as it was read: the lease in this module's table, the row, and
// what both together mean.
type snapshot struct {
	inner backend.Lease
	row   row
	owner rowOwner
	lease backend.Lease // of both, for the caller
	key   string
	err   error // of this election alone
}

// combine computes the lease that follows from lease and row. See
// docs/design/mysqltable.md.
func (b *Backend) combine(snap *snapshot) {
	l, r, candidate := snap.inner, snap.row, b.self()
	snap.owner = b.ownerOf(l, r, candidate.ID)
	switch snap.owner {
	case noRow:
		// An operator deleted the row to get a new election. The program that led by it may
		// not have read the row since.
		l.Version += " no row"
		l.ObserveFor = longerObserve(l.ObserveFor, b.options.Period)
	case blank:
		l.Version += " unnamed " + r.time
		l.ObserveFor = longerObserve(l.ObserveFor, b.options.Period)
	case thisProcess:
		// The previous leader may not have read the row since.
		l.Holder = backend.Candidate{ID: r.holder}
		l.TTL, l.Renew = b.options.Threshold, b.options.Period
		l.ObserveFor = longerObserve(l.ObserveFor, b.options.Period)
	case otherProgram:
		l.Holder = backend.Candidate{ID: r.holder}
		l.TTL, l.Renew = b.observeFor(), b.options.Period
		l.ObserveFor = longerObserve(l.ObserveFor, b.observeFor())
		if r.age < -b.options.Threshold && r.time != sealed {
			// In the future: only the server's clock ends it.
			l.ObserveFor = backend.ExpiresInStore
		}
	}
	if snap.owner == thisProcess || snap.owner == otherProgram {
		l.Age = max(r.age, 0)
		h := fnv.New64a()
		fmt.Fprintf(h, "%q %q", r.holder, r.time)
		l.Version += fmt.Sprintf(" row %x", h.Sum64())
	}
	snap.lease = clean.Lease(l)
}

// longerObserve returns the longer of two values of ObserveFor.
func longerObserve(a, b time.Duration) time.Duration {
	if a < 0 {
		return a
	}
	return max(a, b)
}

func (b *Backend) ownerOf(l backend.Lease, r row, id string) rowOwner {
	holder := l.Holder.ID
	if l.Vacant() {
		holder = l.LastID
	}
	switch {
	case !r.found:
		return noRow
	case holder != "" && r.holder == b.shape.holderOf(holder, l.Term):
		return thisModule
	case r.holder == "" && (r.time == vacated || r.time == sealed):
		return thisModule
	case l.MovedTo != "" && r.time == sealed && grantMark.MatchString(r.holder):
		return thisModule // of the member that sealed it, or a later holder
	case r.holder == "":
		return blank
	case b.shape.designates(r.holder, id):
		return thisProcess
	}
	return otherProgram
}

// snapshots reads the elections: rows first, then leases. Another member of this module
// acquires the lease before the row, so that its change in between does not look like another
// program's. If both changed in between, it reads again.
func (b *Backend) snapshots(ctx context.Context, names []string) ([]snapshot, error) {
	list, err := b.snapshotsOnce(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].owner == otherProgram && grantMark.MatchString(list[i].row.holder) {
			return b.snapshotsOnce(ctx, names)
		}
	}
	return list, nil
}

func (b *Backend) snapshotsOnce(ctx context.Context, names []string) ([]snapshot, error) {
	keys, errs := b.keysOf(names)
	var rows []row
	err := b.call(ctx, "read", func(conn *sql.Conn) (err error) {
		rows, err = b.read(ctx, conn, keys, errs)
		return err
	})
	if err != nil {
		return nil, err
	}
	leases, err := b.readLeases(ctx, names)
	if err != nil {
		return nil, err
	}
	list := make([]snapshot, len(names))
	for i := range names {
		list[i] = snapshot{inner: leases[i], row: rows[i], key: keys[i], err: errs[i]}
		b.combine(&list[i])
	}
	return list, nil
}

// readLeases reads the leases, in the order of names.
func (b *Backend) readLeases(ctx context.Context, names []string) ([]backend.Lease, error) {
	list := make([]backend.Lease, len(names))
	at := make(map[string]int, len(names))
	for i, name := range names {
		list[i].Election, at[name] = name, i
	}
	found, err := b.inner.Observe(ctx, list)
	for _, l := range found {
		list[at[l.Election]] = l
	}
	return list, err
}

// Observe implements [backend.Backend].
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, err
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	snaps, err := b.snapshots(ctx, names)
	if err != nil {
		return nil, err
	}
	for i, old := range seen {
		// An unsuitable name is reported to the process that bids for it.
		if now := snaps[i].lease; old.Version == "" || now.Differs(old) {
			changed = append(changed, now)
		}
	}
	return changed, nil
}

// List implements [backend.Backend]: elections that members of this module have led.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, err
	}
	list, err := b.inner.List(ctx, from, limit)
	if err != nil || len(list) == 0 {
		return list, err
	}
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = r.Election
	}
	snaps, err := b.snapshots(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range list {
		snap := &snaps[i]
		if snap.owner == otherProgram || snap.owner == thisProcess {
			list[i].Elected = time.Time{} // not known
		}
		if snap.err == nil {
			list[i].Lease = snap.lease
		}
	}
	return list, nil
}
