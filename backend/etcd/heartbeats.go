package etcd

import (
	"encoding/json"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/go-election/go-election/backend/clean"
)

// heartbeats is the value of heartbeat/SESSION. Heartbeat stands for all leases that the
// holder renewed last, so renewing a thousand costs as much as renewing one. A lease that
// was not renewed together with them is listed in Apart: a lease whose function hangs
// expires although the process continues.
type heartbeats struct {
	ID        string               `json:"id"`
	Nonce     string               `json:"nonce"`
	Heartbeat heartbeat            `json:"heartbeat"`
	Apart     map[string]heartbeat `json:"apart,omitempty"`
	At        time.Time            `json:"at"` // by the holder's clock: a hint
}

// A heartbeat is a random number, quoted because JSON parsers round large numbers.
type heartbeat uint64

func (b heartbeat) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(b), 10), nil }

func (b *heartbeat) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	*b = heartbeat(n)
	return err
}

// newHeartbeat returns a fresh heartbeat, never 0.
func newHeartbeat() uint64 { return rand.Uint64() | 1 }

// maxHeartbeats is the greatest size in bytes of a session record that is read. etcd
// accepts slightly larger requests.
const maxHeartbeats = 1 << 20

// readHeartbeats decodes a value, which may come from any writer. An invalid value renews
// nothing.
func readHeartbeats(value []byte) (r heartbeats) {
	if len(value) > maxHeartbeats || json.Unmarshal(value, &r) != nil {
		return heartbeats{}
	}
	r.At = clean.Time(r.At)
	return r
}

// of returns the heartbeat of an election.
func (r *heartbeats) of(election string) heartbeat {
	if b, apart := r.Apart[election]; apart {
		return b
	}
	return r.Heartbeat
}

// renew returns the value that gives the renewed elections a fresh heartbeat; the others,
// which may be held too, keep theirs. The shorter of the two lists is in Apart.
func (r *heartbeats) renew(renewed, others []string, now time.Time) heartbeats {
	next := heartbeats{ID: r.ID, Nonce: r.Nonce, Heartbeat: r.Heartbeat, At: now}
	fresh := heartbeat(newHeartbeat())
	apart := make(map[string]heartbeat)
	if len(others) <= len(renewed) {
		next.Heartbeat = fresh
	} else {
		for _, name := range renewed {
			apart[name] = fresh
		}
	}
	for _, name := range others {
		if b := r.of(name); b != next.Heartbeat {
			apart[name] = b
		}
	}
	if len(apart) > 0 {
		next.Apart = apart
	}
	return next
}

// A sessionRecord is a session key as it was read.
type sessionRecord struct {
	heartbeats
	createRevision, revision int64     // of its creation and of its last write
	observedAt               time.Time // when the watch delivered it
}

func readSessionRecord(kv *mvccpb.KeyValue) *sessionRecord {
	return &sessionRecord{heartbeats: readHeartbeats(kv.Value), createRevision: kv.CreateRevision, revision: kv.ModRevision}
}

// combine makes one heartbeat of two. It is never 0, and changes when either changes.
func combine(a, b uint64) uint64 {
	x := a ^ bits.RotateLeft64(b*0x9e3779b97f4a7c15, 29)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return (x ^ x>>27) | 1
}
