package etcd

import (
	"encoding/json"
	"math/bits"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// maxHeartbeats is the greatest size in bytes of a session record that is read. etcd
// accepts slightly larger requests.
const maxHeartbeats = 1 << 20

// readHeartbeats decodes a value, which may come from any writer. An invalid value renews
// nothing.
func readHeartbeats(value []byte) (r lease.Session) {
	if len(value) > maxHeartbeats || json.Unmarshal(value, &r) != nil {
		return lease.Session{}
	}
	r.At = clean.Time(r.At)
	return r
}

// A sessionRecord is a session key as it was read.
type sessionRecord struct {
	lease.Session
	createRevision, revision int64     // of its creation and of its last write
	observedAt               time.Time // when the watch delivered it
}

func readSessionRecord(kv *mvccpb.KeyValue) *sessionRecord {
	return &sessionRecord{Session: readHeartbeats(kv.Value), createRevision: kv.CreateRevision, revision: kv.ModRevision}
}

// combine makes one heartbeat of two. It is never 0, and changes when either changes.
func combine(a, b uint64) uint64 {
	x := a ^ bits.RotateLeft64(b*0x9e3779b97f4a7c15, 29)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return (x ^ x>>27) | 1
}
