package main

import (
	"errors"
	"sync"
)

var errFenced = errors.New("a later leader has begun, or has applied this")

// A table is what the consumers write to. For each partition it keeps the offset and the greatest term with
// the data, and refuses older terms in the same step. In a database that is a transaction, which begins with
//
//	UPDATE progress SET term = :term, next = :offset + 1
//	WHERE partition = :partition AND term <= :term AND next = :offset
//
// and rolls back unless that has changed a row.
type table struct {
	mu   sync.Mutex
	rows map[string]row // by partition
}

type row struct {
	term uint64
	next int
}

// claim begins a leadership: from now on the table refuses earlier ones. It returns the next offset.
func (t *table) claim(partition string, term uint64) (offset int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[partition]
	if term < r.term {
		return 0, errFenced
	}
	t.rows[partition] = row{term, r.next}
	return r.next, nil
}

// apply applies the message at an offset.
func (t *table) apply(partition string, term uint64, offset int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[partition]
	if term < r.term || offset != r.next {
		return errFenced
	}
	t.rows[partition] = row{term, offset + 1}
	return nil
}

// applied returns how many messages were applied in all partitions.
func (t *table) applied() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		n += r.next
	}
	return n
}
