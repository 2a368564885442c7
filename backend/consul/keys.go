package consul

import (
	"encoding/json"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// keys are the names of keys. Followers wait for changes below leases; renewals write
// elsewhere. See docs/design/consul.md, "Layout of keys".
type keys struct{ prefix, leases, lock, term, heartbeat, member, changes string }

func newKeys(prefix string) keys {
	return keys{
		prefix, prefix + "/leases/", prefix + "/leases/lock/", prefix + "/leases/term/",
		prefix + "/heartbeats/", prefix + "/members/", prefix + "/changes",
	}
}

// maxValue is the most that is read of one key. Consul allows 512 KiB.
const maxValue = 1 << 20

// A lock is the value of an election's lock key: the present leadership. Without a holder it
// is what a release has written.
type lock struct {
	Term      uint64          `json:"term"`
	Holder    candidate       `json:"holder"`
	TTL       int64           `json:"ttl_us,omitempty"`
	Renew     int64           `json:"renew_us,omitempty"`
	Session   string          `json:"session,omitempty"` // the holder's, which has the heartbeat key
	Heartbeat lease.Heartbeat `json:"heartbeat"`
	At        time.Time       `json:"at"` // by the writer's clock: a hint
}

type candidate struct {
	ID       string `json:"id,omitempty"`
	Nonce    string `json:"nonce,omitempty"`
	Address  string `json:"address,omitempty"`
	Metadata string `json:"metadata,omitempty"`
}

// A term is the value of an election's record: the last leadership, how it ended, and the
// request.
type term struct {
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

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

// duration converts microseconds, which may be arbitrary.
func duration(us int64) time.Duration {
	return time.Duration(min(max(us, 0), int64(maxTTL/time.Microsecond))) * time.Microsecond
}

// encode cannot fail: all values are plain, and the times in them were cleaned.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("consul: " + err.Error())
	}
	return text
}

// decode reads a value, which may be arbitrary.
func decode(pair *api.KVPair, into any) bool {
	return pair != nil && len(pair.Value) <= maxValue && json.Unmarshal(pair.Value, into) == nil
}

// close ends the leadership in the record, if there is one. lapsed is how long ago its lease
// expired, or 0 if that is unknown.
func (t *term) close(how backend.End, now time.Time, lapsed time.Duration) {
	if t.Term == 0 || t.End != "" {
		return
	}
	t.History = clean.Remember(t.History, backend.Leadership{Term: t.Term, ID: t.ID, From: t.From}, how, now, lapsed)
	t.End, t.To = how, now
}

// clean makes the values of a record harmless.
func (t *term) clean() {
	t.ID, t.Nonce = clean.Text(t.ID, backend.MaxID, false), clean.Text(t.Nonce, 64, false)
	t.End = backend.End(clean.Text(string(t.End), 16, false))
	t.From, t.To = clean.Time(t.From), clean.Time(t.To)
	t.History = clean.History(t.History)
}
