package main

import (
	"errors"
	"sync"
)

var errFenced = errors.New("a later leader has begun, or has applied this")

// A table is what the consumers of one partition write to. It keeps the offset and the greatest term
// with the data, and refuses older terms in the same step. In a database that is a transaction, which
// begins with
//
//	UPDATE progress SET term = :term, next = :offset + 1
//	WHERE partition = :partition AND term <= :term AND next = :offset
//
// and rolls back unless that has changed a row.
type table struct {
	mu   sync.Mutex
	term uint64
	next int
}

type tables map[string]*table

func newTables(names []string) tables {
	all := tables{}
	for _, name := range names {
		all[name] = &table{}
	}
	return all
}

// claim begins a leadership: from now on the table refuses earlier ones. It returns the next offset.
func (t *table) claim(term uint64) (offset int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term < t.term {
		return 0, errFenced
	}
	t.term = term
	return t.next, nil
}

// apply applies the message at an offset.
func (t *table) apply(term uint64, offset int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term < t.term || offset != t.next {
		return errFenced
	}
	t.term = term
	t.next++
	return nil
}

// applied returns how many messages were applied in all partitions.
func (all tables) applied() (n int) {
	for _, t := range all {
		t.mu.Lock()
		n += t.next
		t.mu.Unlock()
	}
	return n
}
