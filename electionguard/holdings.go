package electionguard

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// A report is a line of JSON for the guard. Each says one thing.
type report struct {
	Store []byte        `json:",omitempty"` // of the program's Options, in the first line
	Grace time.Duration `json:",omitempty"` // with the store

	Nonce string        `json:",omitempty"` // the program's
	TTL   time.Duration `json:",omitempty"` // of its leases, with the nonce

	Holds string `json:",omitempty"` // an election that the program may hold
	Term  uint64 `json:",omitempty"` // in which it does; 0: that of a bid without an answer

	Released string `json:",omitempty"` // an election that it does not hold any more
	End      bool   `json:",omitempty"` // it needs no guard any more
}

// The holdings are what the guard knows of the program.
type holdings struct {
	store []byte // of its Options
	grace time.Duration
	nonce backend.Nonce
	ttl   time.Duration
	terms map[string]uint64 // by election
	ended bool              // the program needs no guard any more
}

// apply takes in a line. One that cannot be read says nothing.
func (h *holdings) apply(line []byte) {
	var r report
	if err := json.Unmarshal(line, &r); err != nil {
		return
	}
	if len(r.Store) > 0 {
		h.store = r.Store
	}
	h.grace = max(h.grace, r.Grace)
	if r.Nonce != "" {
		h.nonce, h.ttl = backend.Nonce(r.Nonce), r.TTL
	}
	if r.Holds != "" && h.nonce != "" { // otherwise the line before it was lost
		h.terms[r.Holds] = r.Term
	}
	delete(h.terms, r.Released)
	h.ended = h.ended || r.End
}

// held returns what the program may hold, in byte order of names.
func (h *holdings) held() (held []backend.Held) {
	holder := backend.Candidate{Nonce: h.nonce}
	for _, name := range slices.Sorted(maps.Keys(h.terms)) {
		held = append(held, backend.Held{
			Election: name, Holder: holder, Term: h.terms[name], TTL: h.ttl, End: backend.Failed,
		})
	}
	return held
}
