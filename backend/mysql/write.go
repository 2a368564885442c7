package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

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
	verify [][4]any // what the call verifies
}

// Write implements [lease.Driver]. Changes share transactions, which compare the epoch. The items in
// verify are compared after the commit, in the same message.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	w := writing{driver: d, epoch: epoch, before: d.origin(), verify: make([][4]any, len(verify))}
	if w.before.epoch != "" && (w.before.epoch != epoch || w.before.wentBack != wentBack) {
		return w.Written, lease.ErrEpoch
	}
	for i, it := range verify {
		w.verify[i] = [4]any{i, it.Kind, it.Name, it.Version}
	}
	w.Writing = relational.Writing{Changes: changes, Try: w.try, Alone: ofOneChange, Fail: d.fail,
		Soon: func(err error) bool { return is(err, errDuplicate, errLockTimeout, errDeadlock) }} // somebody has just made the row, or holds it
	done, err := w.Run(ctx)
	if err == nil {
		d.written(changes, done.Results)
	}
	return done, err
}

// A row is one of columnsSQL.
type row [8]any

// try sends one transaction. It returns the changes whose rows were locked.
func (w *writing) try(ctx context.Context, part []int) (busy []int, err error) {
	random, rows := string(backend.NewNonce()[:16]), []row(nil)
	var inserts, updates, deletes bool
	add := func(i int, it *lease.Item, value lease.Value, put int) {
		r := row{i, it.Kind, it.Name, it.Version, nil, nil, put, ""}
		if value != nil {
			text := lease.Encode(value)
			r[4], r[7] = text, newVersion(random, it.Key, text)
		}
		if it.Remembered && it.Value != nil {
			r[5] = lease.Encode(it.Value)
		}
		rows = append(rows, r)
		inserts = inserts || it.Version == ""
		updates = updates || it.Version != "" && value != nil
		deletes = deletes || it.Version != "" && value == nil && put == 1
	}
	for _, i := range part {
		c := &w.Changes[i]
		for n := range c.Check {
			add(i, &c.Check[n], nil, 0)
		}
		for n := range c.Put {
			add(i, &c.Put[n].Over, c.Put[n].Value, 1)
		}
	}
	results, err := w.query(ctx, func() []string {
		statements := []string{w.statement(changesSQL, rows), "START TRANSACTION"}
		for _, s := range []struct {
			needed bool
			text   string
		}{{inserts, lockSQL}, {true, compareSQL}, {updates, updateSQL}, {deletes, deleteSQL}, {inserts, insertSQL}} {
			if s.needed {
				statements = append(statements, w.statement(s.text, nil, "{epoch}", literal(w.epoch)))
			}
		}
		return append(statements, "COMMIT", w.statement(resultSQL, w.verify))
	})
	if err != nil {
		return nil, err
	}
	head := results[slices.IndexFunc(results, func(r [][]byte) bool { return string(r[0]) == "-1" }):]
	if head[0][1] == nil {
		return nil, lease.ErrEpoch
	}
	if o, ok, err := w.note(w.epoch, &w.before); err != nil || !ok || o.wentBack != w.before.wentBack {
		return nil, lease.ErrEpoch
	}
	w.Stale = nil
	for _, r := range head[1:] {
		w.Stale = append(w.Stale, int(number(r[0])))
	}
	return w.answered(part, head[0][1], random)
}

// answered sets the outcomes of a transaction.
func (w *writing) answered(part []int, answer []byte, random string) (busy []int, err error) {
	states := map[string]int{}
	if err := json.Unmarshal(answer, &states); err != nil {
		return nil, fmt.Errorf("the outcomes are %.100q: %w", answer, err)
	}
	for _, i := range part {
		switch state, ok := states[strconv.Itoa(i)]; {
		case !ok:
			return nil, fmt.Errorf("the outcomes are %.100q, and change %d is missing", answer, i)
		case state == 2:
			busy = append(busy, i)
		case state == 1:
			w.Results[i].Outcome = backend.Refused
		default:
			w.Results[i] = lease.Result{Outcome: backend.Granted, Items: written(&w.Changes[i], random)}
		}
	}
	return busy, nil
}

// written returns the items of a change that was made.
func written(c *lease.Change, random string) (items []lease.Item) {
	for _, p := range c.Put {
		it := lease.Item{Key: p.Over.Key, Age: -1}
		if p.Value != nil {
			text := lease.Encode(p.Value)
			v := newVersion(random, it.Key, text)
			it.Version, it.Created, it.Age = version(v, text), p.Over.Created, 0
			if p.Over.Version == "" {
				it.Created = random
			}
		}
		items = append(items, it)
	}
	return items
}
