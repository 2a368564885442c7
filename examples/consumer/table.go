package main

import (
	"errors"
	"fmt"
	"sync"
)

var errFenced = errors.New("a later leader has begun")

// A Table is what the consumers write to. It keeps the offset and the greatest term with the data,
// and refuses older terms in the same step. In a database the step is a transaction that begins with
//
//	UPDATE progress SET term = :term, next = :offset + 1
//	WHERE partition = 0 AND term <= :term AND next = :offset
//
// and rolls back unless that has changed a row. The zero value is an empty table.
type Table struct {
	mu     sync.Mutex
	term   uint64
	orders []string // the next offset is their number
}

// Claim begins a leadership: from now on the table refuses earlier ones. It returns the next offset.
func (t *Table) Claim(term uint64) (offset int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.orders), t.fence(term)
}

// Apply adds the order at an offset.
func (t *Table) Apply(term uint64, offset int, order string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.fence(term); err != nil {
		return err
	}
	if offset != len(t.orders) {
		return fmt.Errorf("offset %d comes after %d orders", offset, len(t.orders))
	}
	t.orders = append(t.orders, order)
	return nil
}

func (t *Table) fence(term uint64) error {
	if term < t.term {
		return fmt.Errorf("%w: term %d comes after term %d", errFenced, term, t.term)
	}
	t.term = term
	return nil
}
