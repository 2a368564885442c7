package redis

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Write implements [lease.Driver]. Changes share runs of the script, which compares the epoch. Versions never
// come twice, whatever the store has lost, so the values of remembered items need not be compared.
func (d *driver) Write(
	ctx context.Context, epoch string, _ int, changes []lease.Change, verify []lease.Item,
) (w lease.Written, err error) {
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

		args := []any{to - from}
		for i := from; i < to; i++ {
			args = appendChange(args, &changes[i])
		}
		for _, it := range part {
			args = append(args, string(it.Kind), it.Name, it.Version)
		}
		nonce := newNonce()
		a, err := d.do(ctx, "write", nonce, epoch, args...)
		switch {
		case err != nil:
			return w, err
		case a.epoch != epoch:
			return w, lease.ErrEpoch
		case len(a.rest) < to-from:
			return w, fmt.Errorf("%w: the answer has not %d results", backend.ErrUnavailable, to-from)
		}

		for i, number := range a.rest[:to-from] {
			result := lease.Result{Outcome: backend.Refused}
			if n := text(number); n != "" {
				result = lease.Result{Outcome: backend.Granted, Items: written(&changes[from+i], n+"."+nonce)}
			}
			w.Results[from+i] = result
		}
		for _, n := range a.rest[to-from:] {
			i, _ := n.(int64)
			w.Stale = append(w.Stale, checked+int(i))
		}
		from, checked = to, checked+len(part)
	}
	return w, nil
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
