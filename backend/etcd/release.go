package etcd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Release implements [backend.Backend]. One transaction marks the records vacant; it requires
// them as they were granted, or as they are read first. The session continues.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(""); err != nil {
		return err
	}
	if b.owner.Nonce() == "" {
		return nil // it has held nothing
	}
	var failed error
	for part := range slices.Chunk(held, maxByKey) {
		if err := ctx.Err(); err != nil { // nothing is known of the rest
			return errors.Join(failed, b.fail(about("release", len(held), held[0].Election), err))
		}
		failed = errors.Join(failed, b.fail(about("release", len(part), part[0].Election), b.release(ctx, part)))
	}
	return failed
}

// release ends leases, and stops bids that may still be on their way.
func (b *Backend) release(ctx context.Context, part []backend.Held) error {
	names := make([]string, len(part))
	for n, l := range part {
		names[n] = l.Election
	}
	v, entries, remembered := b.rememberedGrants(part)
	for range 5 {
		if !remembered {
			var err error
			if v, entries, err = b.readElections(ctx, names); err != nil {
				return err
			}
		}
		remembered = false
		changes, when, then := b.planRelease(&v, entries, part)
		if changes == nil {
			return nil
		}
		resp, err := b.txn(ctx, append(when, b.unchanged(changes)...), then, true) // only the first copy finds these revisions
		if err != nil {
			return err
		}
		if resp.Succeeded {
			for _, c := range changes {
				b.forget(c.entry.Election, 0)
			}
			return nil
		}
	}
	return errBusy
}

// planRelease returns the changes that end leases, with the conditions and operations of
// their transaction. Leases that this process does not hold are forgotten.
func (b *Backend) planRelease(v *snapshot, entries []entry, part []backend.Held) (changes []change, when []clientv3.Cmp, then []clientv3.Op) {
	now := time.Now().UTC()
	writeLayout := false
	for n, l := range part {
		e := &entries[n]
		switch {
		case e.heldBy(v.nonce) && (l.Term == 0 || l.Term == e.Term):
			then = append(then, clientv3.OpPut(b.keys.record(l.Election), vacated(v, e, l.End, now)))
		case l.Term != 0 || !b.mayHold(l.Election):
			b.forget(l.Election, l.Term)
			continue
		// In the other cases a bid of this process may still be on its way. It fails if the
		// key that it requires is written once more: docs/design/etcd.md, "Late requests".
		case !e.Vacant():
			then = append(then, b.rewriteRequest(e))
			when = append(when, clientv3.Compare(clientv3.ModRevision(b.keys.request(l.Election)), "=", e.requestRevision))
		case e.missing: // the bid would raise the number of records
			writeLayout = true
		case e.record == nil:
			then = append(then, clientv3.OpPut(b.keys.record(l.Election), string(e.raw)))
		default:
			r := *e.record
			if e.suspect {
				r.Cluster = 0 // it must still be watched
			}
			then = append(then, clientv3.OpPut(b.keys.record(l.Election), r.writtenOver(e)))
		}
		changes = append(changes, change{entry: e})
	}
	if writeLayout {
		l := v.layout
		l.Version, l.Cluster = layoutVersion, cmp.Or(l.Cluster, v.cluster)
		when = append(when, clientv3.Compare(clientv3.ModRevision(b.keys.layout()), "=", v.layoutRevision))
		then = append(then, clientv3.OpPut(b.keys.layout(), encode(l)))
	}
	return changes, when, then
}

// vacated returns the vacant record that follows a leadership of this process.
func vacated(v *snapshot, e *entry, how backend.End, now time.Time) string {
	end, lastID, history := e.endLeadership(how, now)
	r := record{Term: e.Term, Heartbeat: uint64(lease.NewHeartbeat()), End: end, LastID: lastID, History: history, Written: now, Cluster: v.cluster, marks: marks{e.MovedTo, e.MovedFrom}}
	if e.suspect || !e.mayBeHeld {
		r.Cluster = 0 // it must still be watched
	}
	return r.writtenOver(e)
}

// rewriteRequest writes a request once more as it is, without sending a large value.
func (b *Backend) rewriteRequest(e *entry) clientv3.Op {
	if e.requestRevision == 0 {
		return clientv3.OpPut(b.keys.request(e.Election), "")
	}
	return clientv3.OpPut(b.keys.request(e.Election), "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
}
