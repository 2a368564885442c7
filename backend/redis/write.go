package redis

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Write implements [lease.Driver]. Changes share runs of the script, which compares the epoch. Versions never
// come twice, whatever the store has lost, so the values of remembered items need not be compared.
func (d *driver) Write(ctx context.Context, epoch string, _ int, changes []lease.Change, verify []lease.Item) (w lease.Written, err error) {
	w.Results = make([]lease.Result, len(changes))
	for from, checked := 0, 0; from < len(changes) || checked < len(verify); {
		to, items := from, 0
		for ; to < len(changes); to++ {
			if items += len(changes[to].Put) + len(changes[to].Check); to > from && items > maxParts {
				break
			}
		}
		part := verify[checked:checked]
		if to == len(changes) { // what is verified is compared after all changes
			part = verify[checked:min(len(verify), checked+maxVerify)]
		}
		stale, err := d.send(ctx, epoch, changes[from:to], w.Results[from:to], part)
		if err != nil {
			return w, err
		}
		for _, i := range stale {
			w.Stale = append(w.Stale, checked+i)
		}
		from, checked = to, checked+len(part)
	}
	return w, nil
}

// send makes changes in one run, sets their results, and returns which of the items in verify have another
// version.
func (d *driver) send(ctx context.Context, epoch string, changes []lease.Change, results []lease.Result, verify []lease.Item) (stale []int, err error) {
	args := []any{len(changes)}
	for i := range changes {
		args = appendChange(args, &changes[i])
	}
	for _, it := range verify {
		args = append(args, string(it.Kind), it.Name, it.Version)
	}
	nonce := newNonce()
	now, _, rest, err := d.do(ctx, "write", nonce, epoch, args...)
	switch {
	case err != nil:
		return nil, err
	case now != epoch:
		return nil, lease.ErrEpoch
	case len(rest) < len(changes):
		return nil, fmt.Errorf("%w: %d changes have %d results", backend.ErrUnavailable, len(changes), len(rest))
	}
	for i := range changes {
		results[i].Outcome = backend.Refused
		if number := text(rest[i]); number != "" {
			results[i] = lease.Result{Outcome: backend.Granted, Items: written(&changes[i], number+"."+nonce)}
		}
	}
	for _, n := range rest[len(changes):] {
		i, _ := n.(int64)
		stale = append(stale, int(i))
	}
	return stale, nil
}

// appendChange appends a change as the script takes it.
func appendChange(args []any, c *lease.Change) []any {
	notify := ""
	if c.Notify {
		notify = "-"
		for _, p := range c.Put {
			if r, ok := p.Value.(*lease.Record); ok && r.Nonce != "" {
				notify = r.Nonce // who hears of a leader needs its session, too
			}
		}
	}
	args = append(args, len(c.Check)+len(c.Put), notify)
	for _, it := range c.Check {
		args = append(args, string(it.Kind), it.Name, it.Version, "check", "")
	}
	for _, p := range c.Put {
		what, value := "delete", ""
		if p.Value != nil {
			what, value = "put", lease.Encode(p.Value)
		}
		args = append(args, string(p.Over.Kind), p.Over.Name, p.Over.Version, what, value)
	}
	return args
}

// written returns the items of a change that was made at a number.
func written(c *lease.Change, at string) (items []lease.Item) {
	for _, p := range c.Put {
		version := ""
		if p.Value != nil {
			_, made := parse(p.Over.Version)
			if made == "" {
				made = at
			}
			version = at + "/" + made + "/" + sum(lease.Encode(p.Value))
		}
		items = append(items, item(p.Over.Key, version, ""))
	}
	return items
}
