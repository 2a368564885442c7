package etcd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// Release implements [backend.Backend]: one transaction that marks the record vacant,
// pinned to what was written when it was granted, or else to what is read first. The
// session goes on.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(""); err != nil {
		return err
	}
	if b.owner.Nonce() == "" {
		return nil // it never held anything
	}
	var failed error
	for part := range slices.Chunk(held, maxByKey) {
		failed = errors.Join(failed, b.fail(about("release", len(part), part[0].Election), b.release(ctx, part)))
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

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
		now := time.Now().UTC()
		var changes []change
		var then []clientv3.Op
		var pins []clientv3.Cmp
		touched := false
		for n, l := range part {
			e := &entries[n]
			if !e.heldBy(v.nonce) || l.Term != 0 && l.Term != e.Term {
				if l.Term != 0 || !b.mayHold(l.Election) {
					b.forget(l.Election, l.Term)
					continue
				}
				// A bid of ours may still be on its way. What it is pinned to is written
				// again, so that it finds another revision and fails: of a lease that
				// somebody else holds, the request.
				changes = append(changes, change{entry: e})
				switch {
				case !e.Vacant():
					then = append(then, b.rewriteRequest(e))
					pins = append(pins, clientv3.Compare(clientv3.ModRevision(b.keys.request(l.Election)), "=", e.requestRevision))
				case e.missing: // it was to raise the number of elections
					touched = true
				case e.record == nil:
					then = append(then, clientv3.OpPut(b.keys.record(l.Election), string(e.raw)))
				default:
					r := *e.record
					if e.suspect {
						r.Cluster = 0 // it must still be watched
					}
					then = append(then, clientv3.OpPut(b.keys.record(l.Election), r.writtenOver(e)))
				}
				continue
			}
			end, lastID, lastNonce, history := e.endLeadership(l.End, now)
			r := record{Term: e.Term, Heartbeat: newHeartbeat(), End: end, LastID: lastID, LastNonce: lastNonce, History: history, Written: now, Cluster: v.cluster, marks: marks{e.MovedTo, e.MovedFrom}}
			if e.suspect || !e.mayBeHeld {
				r.Cluster = 0 // it must still be watched
			}
			changes = append(changes, change{entry: e})
			then = append(then, clientv3.OpPut(b.keys.record(l.Election), r.writtenOver(e)))
		}
		if changes == nil {
			return nil
		}
		if touched {
			lay := v.layout
			lay.Version, lay.Cluster = layoutVersion, cmp.Or(lay.Cluster, v.cluster)
			pins = append(pins, clientv3.Compare(clientv3.ModRevision(b.keys.layout()), "=", v.layoutRevision))
			then = append(then, clientv3.OpPut(b.keys.layout(), encode(lay)))
		}
		resp, err := b.txn(ctx, append(pins, b.unchanged(changes)...), then, true) // of copies the first counts: the others find other revisions
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

// again writes a request as it is, however large it may be.
func (b *Backend) rewriteRequest(e *entry) clientv3.Op {
	if e.requestRevision == 0 {
		return clientv3.OpPut(b.keys.request(e.Election), "")
	}
	return clientv3.OpPut(b.keys.request(e.Election), "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
}
