package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/relational"
)

// writing is one call of Write.
type writing struct {
	*driver
	relational.Writing
	epoch  string
	before origin
	verify string // the statement that compares what the call verifies
}

// Write implements [lease.Driver]. Changes share transactions, which compare the epoch. The items in
// verify are compared after the commit, in the same message.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	w := writing{driver: d, epoch: epoch, before: d.origin()}
	if w.before.epoch != "" && (w.before.epoch != epoch || w.before.wentBack != wentBack) {
		return w.Written, lease.ErrEpoch
	}
	compared := make([][4]any, len(verify))
	for i, it := range verify {
		compared[i] = [4]any{i, it.Kind, it.Name, it.Version}
	}
	w.verify = d.table.statement(verifySQL, compared)
	w.Writing = relational.Writing{Changes: changes, Try: w.try, Alone: ofOneChange, Fail: d.fail,
		Soon: func(err error) bool { return code(err) == uniqueViolation }} // somebody has just made the row
	return w.Run(ctx)
}

// try sends one transaction. It returns the changes whose rows were locked.
func (w *writing) try(ctx context.Context, part []int) (busy []int, err error) {
	rows, notify, lock := [][7]any(nil), []int{}, "" // a row: change, key, version, new value, former value, whether it is put
	add := func(i int, it *lease.Item, value lease.Value, put bool) {
		row := [7]any{i, it.Kind, it.Name, it.Version, nil, nil, put}
		if value != nil {
			row[4] = lease.Encode(value)
		}
		if it.Remembered && it.Value != nil { // an older copy counts transactions anew
			row[5] = lease.Encode(it.Value)
		}
		if rows = append(rows, row); it.Version == "" {
			lock = lockSQL
		}
	}
	for _, i := range part {
		c := &w.Changes[i]
		for n := range c.Check {
			add(i, &c.Check[n], nil, false)
		}
		for n := range c.Put {
			add(i, &c.Put[n].Over, c.Put[n].Value, true)
		}
		if c.Notify {
			notify = append(notify, i)
		}
	}
	statement := w.table.statement(beginSQL+lock+writeSQL, map[string]any{"epoch": w.epoch, "newest": w.before.position, "rows": rows, "notify": notify}) + w.verify
	results, err := w.exec(ctx, statement)
	if err != nil {
		return nil, err
	}
	if busy, err = w.answered(results[len(results)-3]); err != nil {
		return nil, err
	}
	after := results[len(results)-1]
	if o, ok := w.note(w.epoch, number(after, 0, 0), number(after, 0, 1), &w.before); !ok || o.wentBack != w.before.wentBack {
		return nil, lease.ErrEpoch
	}
	w.Stale = nil
	for _, i := range strings.Fields(text(after, 0, 2)) {
		n, _ := strconv.Atoi(i)
		w.Stale = append(w.Stale, n)
	}
	return busy, nil
}

// answered sets the outcomes of a transaction.
func (w *writing) answered(answer *pgconn.Result) (busy []int, err error) {
	for n := range answer.Rows {
		i := int(number(answer, n, 0))
		same, locked, ok := text(answer, n, 1) == "t", text(answer, n, 2) == "t", text(answer, n, 3) == "t"
		switch {
		case !same:
			return nil, lease.ErrEpoch
		case answer.Rows[n][0] == nil: // there is no change
		case locked:
			busy = append(busy, i)
		case !ok:
			w.Results[i].Outcome = backend.Refused
		default:
			w.Results[i] = lease.Result{Outcome: backend.Granted, Items: written(&w.Changes[i], number(answer, n, 4))}
		}
	}
	return busy, nil
}

// written returns the items of a change that a transaction has made.
func written(c *lease.Change, transaction uint64) (items []lease.Item) {
	for _, p := range c.Put {
		it := lease.Item{Key: p.Over.Key, Age: -1}
		if p.Value != nil {
			it.Version, it.Created, it.Age = version(transaction), p.Over.Created, 0
			if p.Over.Version == "" {
				it.Created = strconv.FormatUint(transaction, 10)
			}
		}
		items = append(items, it)
	}
	return items
}
