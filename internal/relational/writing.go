package relational

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

const (
	maxChanges   = 500             // changes in one transaction
	lockPatience = 2 * time.Second // how long a change whose row is locked is tried again, or half a call
)

// A Batch is the changes of one transaction.
type Batch struct {
	Epoch    string      // the transaction compares it
	Position uint64      // the server's must not be before
	Rows     []Row       // may be empty: then there is only Verify
	Notify   bool        // others, if a change is made
	Verify   [][3]string // kinds, names and versions to compare after the commit, in the same message

	Inserts, Updates, Deletes bool // some row
}

// A Row is an item of a change. In a statement it is a list in JSON, in this order.
type Row struct {
	Change int // its number
	lease.Key
	Version string
	Value   *string // the new one; nil: none
	Former  *string // nil: it is not compared
	Put     int     // 0: the item is only checked
}

func (r Row) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{r.Change, r.Kind, r.Name, r.Version, r.Value, r.Former, r.Put})
}

// A State is what became of a change.
type State int

const (
	Made    State = iota
	Refused       // an item is not as it was read
	Busy          // somebody else has locked a row
)

// Changed is what became of a batch.
type Changed struct {
	Transaction    string        // which has made changes
	States         map[int]State // of each change; nil: another store has answered
	Stale          []int         // of Batch.Verify
	Position, Next uint64        // see Answer
}

// A writing is one call of Write.
type writing struct {
	*Driver
	lease.Written
	epoch   string
	before  origin
	changes []lease.Change
	verify  [][3]string // in the message with the change
}

// Write implements [lease.Driver]. Changes share transactions.
func (d *Driver) Write(ctx context.Context, epoch string, wentBack int,
	changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	d.dropOld()
	w := writing{Driver: d, epoch: epoch, before: d.origin(), changes: changes, verify: [][3]string{}}
	if w.before.epoch != "" && (w.before.epoch != epoch || w.before.wentBack != wentBack) {
		return w.Written, lease.ErrEpoch
	}
	if _, err := d.Place(ctx); err != nil {
		return w.Written, d.Fail(err)
	}
	for _, it := range verify {
		w.verify = append(w.verify, [3]string{string(it.Kind), it.Name, it.Version})
	}
	w.Results = make([]lease.Result, len(changes))
	switch err := w.run(ctx); {
	case errors.Is(err, lease.ErrEpoch):
		return lease.Written{}, err
	case err != nil:
		return lease.Written{Results: w.Results}, d.Explain(ctx, err)
	}
	return w.Written, nil
}

// run sends the changes, and what is to be verified with them. If that is too large for one message, it is
// compared in others, after the change: then it is as new as it would be in the same one, or newer.
func (w *writing) run(ctx context.Context) error {
	rows, later := make([][]Row, len(w.changes)), [][][3]string(nil)
	for i := range rows {
		rows[i] = rowsOf(i, &w.changes[i])
	}
	if len(JSON(rows))+len(JSON(w.verify)) > maxMessage {
		later, w.verify = cut(w.verify), [][3]string{}
	}
	for _, fits := range cut(rows) {
		for part := range slices.Chunk(fits, maxChanges) {
			if err := w.send(ctx, part); err != nil {
				return err
			}
		}
	}
	if len(w.Results) > 0 && w.Results[0].Outcome != backend.Granted {
		return nil
	}

	from := 0
	for _, part := range later {
		c, err := w.change(ctx, &Batch{Rows: []Row{}, Verify: part})
		if err != nil {
			return err
		}
		for _, i := range c.Stale {
			w.Stale = append(w.Stale, from+i)
		}
		from += len(part)
	}
	return nil
}

// send makes changes, each by its rows, in one transaction, and tries those again whose rows were locked. If
// the transaction failed because of one of them, it sends each half.
func (w *writing) send(ctx context.Context, part [][]Row) error {
	until := time.Now().Add(lockPatience)
	if by, ok := ctx.Deadline(); ok && time.Until(by) < 2*lockPatience {
		until = time.Now().Add(time.Until(by) / 2) // or the call ends, and nobody says why
	}
	for {
		busy, err := w.try(ctx, part)
		switch {
		case err == nil:
			part = busy
		case !w.Dialect.Fault(err).OfOneChange:
			return err
		case len(part) > 1:
			if err := w.send(ctx, part[:len(part)/2]); err != nil {
				return err
			}
			return w.send(ctx, part[len(part)/2:])
		case !w.Dialect.Fault(err).Soon:
			w.Results[part[0][0].Change].Err = w.Fail(err)
			return nil
		}
		if len(part) == 0 {
			return nil
		}
		if time.Now().After(until) {
			for _, rows := range part {
				w.Results[rows[0].Change].Err = errLocked
			}
			return nil
		}
		if !client.Pause(ctx, 2*time.Millisecond+rand.N(10*time.Millisecond)) { // or two would meet again
			return ctx.Err()
		}
	}
}

var errLocked = fmt.Errorf("%w: another session keeps a row locked, or keeps changing it: somebody's, "+
	"or a member's whose COMMIT waits for a disk or a replica", backend.ErrUnavailable)

// try sends one transaction, and sets the results. It returns the changes whose rows were locked.
func (w *writing) try(ctx context.Context, part [][]Row) (busy [][]Row, err error) {
	c, err := w.change(ctx, w.batch(part))
	if err != nil {
		return nil, err
	}
	w.Stale = c.Stale // verify comes with one change alone: see lease.Driver
	for _, rows := range part {
		i := rows[0].Change
		switch state, ok := c.States[i]; {
		case !ok:
			return nil, fmt.Errorf("the server has not said what became of change %d", i)
		case state == Busy:
			busy = append(busy, rows)
		case state == Refused:
			w.Results[i].Outcome = backend.Refused
		default:
			items := w.written(&w.changes[i], c.Transaction)
			w.Results[i] = lease.Result{Outcome: backend.Granted, Items: items}
		}
	}
	return busy, nil
}

// change sends a batch, and makes sure that the store is the one that was read.
func (w *writing) change(ctx context.Context, b *Batch) (Changed, error) {
	b.Epoch, b.Position = w.epoch, w.before.position
	c, err := w.Dialect.Change(ctx, b)
	if err != nil {
		return c, err
	}
	if c.States == nil {
		return c, lease.ErrEpoch
	}
	o, ok, err := w.note(w.epoch, c.Position, c.Next, &w.before)
	if err != nil || !ok || o.wentBack != w.before.wentBack {
		err = lease.ErrEpoch
	}
	return c, err
}

func (w *writing) batch(part [][]Row) *Batch {
	b := &Batch{Rows: slices.Concat(part...), Verify: w.verify}
	for _, rows := range part {
		b.Notify = b.Notify || w.changes[rows[0].Change].Notify
	}
	for _, r := range b.Rows {
		b.Inserts = b.Inserts || r.Version == ""
		b.Updates = b.Updates || r.Version != "" && r.Value != nil
		b.Deletes = b.Deletes || r.Version != "" && r.Value == nil && r.Put == 1
	}
	return b
}

func rowsOf(i int, c *lease.Change) (rows []Row) {
	add := func(it *lease.Item, value lease.Value, put int) {
		r := Row{Change: i, Key: it.Key, Version: it.Version, Put: put}
		if value != nil {
			r.Value = new(lease.Encode(value))
		}
		if it.Remembered && it.Value != nil { // an older copy may count versions anew
			r.Former = new(lease.Encode(it.Value))
		}
		rows = append(rows, r)
	}
	for n := range c.Check {
		add(&c.Check[n], nil, 0)
	}
	for n := range c.Put {
		add(&c.Put[n].Over, c.Put[n].Value, 1)
	}
	return rows
}

func (w *writing) written(c *lease.Change, transaction string) (items []lease.Item) {
	for _, p := range c.Put {
		it := lease.Item{Key: p.Over.Key, Age: -1}
		if p.Value != nil {
			it.Version, it.Age = w.Dialect.Version(transaction, it.Key, lease.Encode(p.Value)), 0
			it.Created = p.Over.Created
			if p.Over.Version == "" {
				it.Created = transaction
			}
		}
		items = append(items, it)
	}
	return items
}

// JSON returns the data of a message: strings, numbers, and structs and lists of them.
func JSON(data any) string {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // cannot happen
	}
	return string(text)
}

// maxMessage is how many bytes of JSON one message has. In base64 and with its statements that is less than 1
// MiB, the least that anybody sets max_allowed_packet of MySQL or MariaDB to.
const maxMessage = 700 << 10

// cut returns what fits into one message each, in this order; one empty part of nothing.
func cut[T any](all []T) (parts [][]T) {
	from, size := 0, 0
	for i, one := range all {
		n := len(JSON(one)) + 1
		if size += n; size > maxMessage && i > from {
			parts, from, size = append(parts, all[from:i]), i, n
		}
	}
	return append(parts, all[from:])
}
