package firefly

import (
	"encoding/json"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// A record is the value of our key beside the lock of a FireflySoft election: see
// docs/design/firefly.md, "Layout of the shared keys".
type record struct {
	Term      uint64               `json:"term"`
	ID        string               `json:"id"`
	Nonce     string               `json:"nonce"`
	TTL       int64                `json:"ttl_us"`
	Heartbeat lease.Heartbeat      `json:"heartbeat"`
	From      time.Time            `json:"from"` // times are by the writers' clocks, for people
	To        time.Time            `json:"to,omitzero"`
	End       backend.End          `json:"end,omitempty"` // empty during the leadership
	Last      *past                `json:"last,omitempty"`
	Request   *request             `json:"request,omitempty"`
	MovedTo   string               `json:"moved_to,omitempty"`   // sealed: the election has moved to that backend
	Moved     string               `json:"moved_from,omitempty"` // the backend that it came from, where it is sealed
	History   []backend.Leadership `json:"history,omitempty"`
	Touch     lease.Heartbeat      `json:"touch,omitempty"` // has no meaning; see releaseOps

	Address  string `json:"address,omitempty"`
	Metadata string `json:"metadata,omitempty"`
	Renew    int64  `json:"renew_us,omitempty"`
	Session  string `json:"session,omitempty"` // of the holder
	Seal     string `json:"seal,omitempty"`    // the session that keeps the lock of an election that has moved

	// CreateIndex and LockIndex of the lock when the last leadership of this module ended in
	// order. If they differ, somebody has held the lock since.
	Created uint64 `json:"created,omitempty"`
	Locks   uint64 `json:"locks,omitempty"`
}

// past is the previous leader, and how that leadership ended.
type past struct {
	ID  string      `json:"id"`
	End backend.End `json:"end"`
}

type request struct {
	Term  uint64              `json:"term"`
	Kind  backend.RequestKind `json:"kind"`
	ID    string              `json:"id,omitempty"`
	Nonce string              `json:"nonce,omitempty"`
}

// maxValue is the most that is read of one key. Consul allows 512 KiB.
const maxValue = 1 << 20

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

// duration converts microseconds, which may be arbitrary.
func duration(us int64) time.Duration {
	return time.Duration(min(max(us, 0), int64(maxTTL/time.Microsecond))) * time.Microsecond
}

// encode cannot fail: all values are plain, and the times in them were cleaned.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("firefly: " + err.Error())
	}
	return text
}

// decode reads a value, which may be arbitrary.
func decode(pair *api.KVPair, into any) bool {
	return pair != nil && len(pair.Value) <= maxValue && json.Unmarshal(pair.Value, into) == nil
}

// close ends the leadership in the record, if there is one. lapsed is how long ago its lease
// expired, or 0 if that is unknown.
func (r *record) close(how backend.End, now time.Time, lapsed time.Duration) {
	if r.Term == 0 || r.End != "" {
		return
	}
	r.History = clean.Remember(r.History, backend.Leadership{Term: r.Term, ID: r.ID, From: r.From}, how, now, lapsed)
	r.End, r.To = how, now
}

// clean makes the values of a record harmless.
func (r *record) clean() {
	r.ID, r.Nonce = clean.Text(r.ID, backend.MaxID, false), clean.Text(r.Nonce, 64, false)
	r.End = backend.End(clean.Text(string(r.End), 16, false))
	r.From, r.To = clean.Time(r.From), clean.Time(r.To)
	r.History = clean.History(r.History)
	if len(r.Session) > 64 {
		r.Session = ""
	}
	if len(r.Seal) > 64 {
		r.Seal = ""
	}
}

// pin returns an operation that fails unless the key is as it was read.
func pin(key string, pair *api.KVPair) *api.KVTxnOp {
	if pair == nil {
		return &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key}
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: pair.ModifyIndex}
}

func indexOf(pair *api.KVPair) uint64 {
	if pair == nil {
		return 0 // succeeds only if the key does not exist
	}
	return pair.ModifyIndex
}

// lastIndex returns the index of a transaction that has written.
func lastIndex(results []*api.KVPair) (index uint64) {
	for _, pair := range results {
		if pair != nil {
			index = max(index, pair.ModifyIndex)
		}
	}
	return index
}
