package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// maxChanges is how many changes are made in one transaction.
const maxChanges = 500

// A changeRow is a put or a check of a change.
type changeRow struct {
	Change  int        `json:"c"`
	Kind    lease.Kind `json:"k"`
	Name    string     `json:"n"`
	Version string     `json:"w"`
	Value   *string    `json:"v,omitempty"` // nil: deleted, or only checked
	Before  *string    `json:"b,omitempty"` // not nil: the value must be this
	Put     bool       `json:"p"`
}

// writing is one call of Write.
type writing struct {
	*driver
	lease.Written
	epoch   string
	before  origin
	changes []lease.Change
	verify  string // the statement that compares what the call verifies
	stale   []int
}

// Write implements [lease.Driver]. Changes share transactions, which compare the epoch. The items in
// verify are compared after the last commit, in the same message.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	w := writing{driver: d, epoch: epoch, before: d.origin(), changes: changes}
	if w.before.epoch != "" && (w.before.epoch != epoch || w.before.wentBack != wentBack) {
		return w.Written, lease.ErrEpoch
	}
	w.Results = make([]lease.Result, len(changes))
	type row struct {
		Index   int        `json:"i"`
		Kind    lease.Kind `json:"k"`
		Name    string     `json:"n"`
		Version string     `json:"w"`
	}
	rows := make([]row, len(verify))
	for i, it := range verify {
		rows[i] = row{i, it.Kind, it.Name, it.Version}
	}
	full, none := strings.Replace(d.statements.verify, "{payload}", payload(rows), 1), strings.Replace(d.statements.verify, "{payload}", payload([]row{}), 1)
	parts := split(changes)
	for n, part := range parts {
		if w.verify = none; n == len(parts)-1 {
			w.verify = full
		}
		if err := w.send(ctx, part); err != nil {
			return w.Written, d.fail(err)
		}
	}
	w.Stale = w.stale
	return w.Written, nil
}

// split divides changes into transactions, in which no change uses what an earlier one writes.
func split(changes []lease.Change) (parts [][]int) {
	written := map[lease.Key]bool{} // by the last part
	parts = [][]int{nil}
	for i := range changes {
		c, conflict := &changes[i], len(parts[len(parts)-1]) == maxChanges
		for _, it := range c.Check {
			conflict = conflict || written[it.Key]
		}
		for _, p := range c.Put {
			conflict = conflict || written[p.Over.Key]
		}
		if conflict {
			parts = append(parts, nil)
			clear(written)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], i)
		for _, p := range c.Put {
			written[p.Over.Key] = true
		}
	}
	return parts
}

// lockPatience is how long a change is tried again whose row is locked by somebody else.
const lockPatience = time.Second

// send makes changes in one transaction, and tries those again whose rows were locked. If the
// transaction failed because of one of them, it sends each half.
func (w *writing) send(ctx context.Context, part []int) error {
	began := time.Now()
	for pause := 2 * time.Millisecond; ; pause *= 2 {
		busy, err := w.try(ctx, part)
		switch {
		case err != nil && ofOneChange(err) && len(part) > 1:
			if err := w.send(ctx, part[:len(part)/2]); err != nil {
				return err
			}
			return w.send(ctx, part[len(part)/2:])
		case err != nil && ofOneChange(err) && code(err) != uniqueViolation:
			w.Results[part[0]].Err = w.fail(err)
			return nil
		case err != nil && code(err) != uniqueViolation: // somebody else has just made the row
			return err
		case err == nil:
			part = busy
		}
		if len(part) == 0 {
			return nil
		}
		if time.Since(began) > lockPatience {
			for _, i := range part {
				w.Results[i].Err = fmt.Errorf("%w: another transaction keeps a row of %s locked, or keeps changing it", backend.ErrUnavailable, w.table)
			}
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try sends one transaction. It returns the changes whose rows were locked.
func (w *writing) try(ctx context.Context, part []int) (busy []int, err error) {
	p := struct {
		Epoch  string      `json:"epoch"`
		Newest string      `json:"newest"`
		Rows   []changeRow `json:"rows"`
		Notify []int       `json:"notify"`
	}{w.epoch, strconv.FormatUint(w.before.position, 10), nil, []int{}}
	made := false // a change needs that an item is missing
	for _, i := range part {
		c := &w.changes[i]
		for n := range c.Check {
			p.Rows = append(p.Rows, rowOf(i, &c.Check[n]))
			made = made || c.Check[n].Version == ""
		}
		for n := range c.Put {
			put := &c.Put[n]
			row := rowOf(i, &put.Over)
			row.Put = true
			if put.Value != nil {
				text := lease.Encode(put.Value)
				row.Value = &text
			}
			p.Rows = append(p.Rows, row)
			made = made || put.Over.Version == ""
		}
		if c.Notify {
			p.Notify = append(p.Notify, i)
		}
	}
	statement := beginSQL
	if made {
		statement += w.statements.lock
	}
	statement += strings.Replace(w.statements.write, "{payload}", payload(p), 1) + w.verify
	results, err := w.exec(ctx, statement)
	if err != nil {
		return nil, err
	}
	answer, after := results[len(results)-3], results[len(results)-1]
	if o := w.note(w.epoch, number(after, 0, 0), number(after, 0, 1), &w.before); o.wentBack != w.before.wentBack {
		return nil, lease.ErrEpoch
	}
	w.stale = nil
	for _, i := range strings.Fields(text(after, 0, 2)) {
		n, _ := strconv.Atoi(i)
		w.stale = append(w.stale, n)
	}
	return w.answered(answer)
}

// answered sets the outcomes of a transaction.
func (w *writing) answered(answer *pgconn.Result) (busy []int, err error) {
	for n := range answer.Rows {
		i := int(number(answer, n, 0))
		same, locked, ok := text(answer, n, 1) == "t", text(answer, n, 2) == "t", text(answer, n, 3) == "t"
		switch {
		case !same:
			return nil, lease.ErrEpoch
		case locked:
			busy = append(busy, i)
		case !ok:
			w.Results[i].Outcome = backend.Refused
		default:
			w.Results[i] = lease.Result{Outcome: backend.Granted, Items: written(&w.changes[i], number(answer, n, 4))}
		}
	}
	return busy, nil
}

func rowOf(change int, it *lease.Item) changeRow {
	r := changeRow{Change: change, Kind: it.Kind, Name: it.Name, Version: it.Version}
	if it.Remembered && it.Value != nil { // an older copy counts transactions anew
		text := lease.Encode(it.Value)
		r.Before = &text
	}
	return r
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
