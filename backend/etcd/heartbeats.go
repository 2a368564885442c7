package etcd

import (
	"encoding/json"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/go-election/go-election/backend"
)

// renewals is the value of heartbeat/SESSION: what the holder has renewed last. One value
// stands for all that it holds, so that to renew a thousand costs what it costs to
// renew one. What was not renewed together with the rest is listed with a heartbeat of its
// own: a lease that its holder has ceased to renew, such as one whose function hangs,
// runs out though the process goes on.
type heartbeats struct {
	ID        string               `json:"id"`
	Nonce     string               `json:"nonce"`
	Heartbeat heartbeat            `json:"heartbeat"`
	Apart     map[string]heartbeat `json:"apart,omitempty"`
	At        time.Time            `json:"at"` // by the holder's clock: a hint
}

// A heartbeat is a random number, in quotes, since readers of JSON round large ones.
type heartbeat uint64

func (b heartbeat) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(b), 10), nil }

func (b *heartbeat) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	*b = heartbeat(n)
	return err
}

// newHeartbeat returns a fresh heartbeat, never 0, which stands for "not seen".
func newHeartbeat() uint64 { return rand.Uint64() | 1 }

// maxHeartbeats bounds what is read of a session's key: etcd takes a bit more than that.
const maxHeartbeats = 1 << 20

// readRenewals reads a value that anybody may have written. What makes no sense
// renews nothing.
func readHeartbeats(value []byte) (r heartbeats) {
	if len(value) > maxHeartbeats || json.Unmarshal(value, &r) != nil {
		return heartbeats{}
	}
	r.At = backend.CleanTime(r.At)
	return r
}

// of returns the heartbeat of an election.
func (r *heartbeats) of(election string) heartbeat {
	if b, apart := r.Apart[election]; apart {
		return b
	}
	return r.Heartbeat
}

// with returns what to write so that some elections have a fresh heartbeat and all others
// that may be held keep theirs. The shorter list stands apart.
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

// A home is a session's key as it was read.
type sessionRecord struct {
	heartbeats
	createRevision, revision int64     // revisions of its creation and of its last write
	observedAt               time.Time // when the watch has told of it
}

func readSessionRecord(kv *mvccpb.KeyValue) *sessionRecord {
	return &sessionRecord{heartbeats: readHeartbeats(kv.Value), createRevision: kv.CreateRevision, revision: kv.ModRevision}
}

// mix makes one heartbeat of two, never 0. It changes when either does.
func combine(a, b uint64) uint64 {
	x := a ^ bits.RotateLeft64(b*0x9e3779b97f4a7c15, 29)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return (x ^ x>>27) | 1
}
