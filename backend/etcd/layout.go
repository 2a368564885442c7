package etcd

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// keys makes the keys of a prefix. A name is the rest of a key, byte by byte. record/ and
// request/ are neighbours, so that Listen can watch both in one range without heartbeat/.
type keys string

func (k keys) heartbeat(session string) string      { return string(k) + "heartbeat/" + session }
func (k keys) candidate(nonce backend.Nonce) string { return string(k) + "candidate/" + string(nonce) }
func (k keys) layout() string                       { return string(k) + "layout" }
func (k keys) record(election string) string        { return string(k) + "record/" + election }
func (k keys) request(election string) string       { return string(k) + "request/" + election }
func (k keys) watchRange() (from, to string)        { return string(k) + "record/", string(k) + "request0" }
func keyAfter(key string) string                    { return key + "\x00" }
func directoryEnd(directory string) string          { return directory[:len(directory)-1] + "0" } // '/' + 1
func nameIn(key []byte, directory string) string    { return string(key[len(directory):]) }

// maxValue is the greatest size of a value that is decoded. This package writes far less.
const maxValue = 64 << 10

// A span is a duration in text, such as "3.333s", without loss.
type span time.Duration

func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = span(max(d, 0))
	return err
}

// marks are the marks of a migration.
type marks struct {
	MovedTo   string `json:"moved_to,omitempty"`   // the seal: the election has moved to that backend
	MovedFrom string `json:"moved_from,omitempty"` // the election has moved from that backend, where it is sealed
}

// record is the value of record/NAME, which lasts. Renewals do not write it.
type record struct {
	Term      uint64 `json:"term"`
	ID        string `json:"id,omitempty"` // with nonce: the holder; both empty: vacant
	Nonce     string `json:"nonce,omitempty"`
	Address   string `json:"address,omitempty"`
	Metadata  string `json:"metadata,omitempty"`
	TTL       span   `json:"ttl,omitempty"`
	Renew     span   `json:"renew,omitempty"`
	Session   string `json:"session,omitempty"` // whose heartbeat/ key shows renewals
	Heartbeat uint64 `json:"heartbeat,string"`

	End     backend.End          `json:"end,omitempty"`
	LastID  string               `json:"last_id,omitempty"`
	Elected time.Time            `json:"elected,omitzero"` // by the writer's clock, like all times
	Written time.Time            `json:"written"`
	History []backend.Leadership `json:"history,omitempty"`
	Cluster uint64               `json:"cluster,string"`

	// The election, and the version of the key that this write creates: a value that was
	// copied, edited or put back hardly ever matches both.
	Election string `json:"election"`
	Write    int64  `json:"write"`
	marks
}

// writtenOver returns the record as the next write of an entry's key.
func (r record) writtenOver(e *entry) string {
	r.Election, r.Write = e.Election, e.version+1
	return encode(r)
}

// request is the value of request/NAME.
type request struct {
	Term  uint64              `json:"term"`
	Kind  backend.RequestKind `json:"kind"`
	ID    string              `json:"id,omitempty"`
	Nonce string              `json:"nonce,omitempty"`
}

// layout is the value of the key layout: facts about the whole prefix.
type layout struct {
	Version int    `json:"layout"`
	Made    int64  `json:"made"`    // elections that were ever led
	Again   int64  `json:"again"`   // records made for elections that had one before
	MaxTTL  span   `json:"max_ttl"` // the greatest TTL that was ever granted
	Cluster uint64 `json:"cluster,string"`
}

const layoutVersion = 1

// candidate is the value of candidate/NONCE.
type candidate struct {
	ID        string    `json:"id"`
	Address   string    `json:"address,omitempty"`
	Metadata  string    `json:"metadata,omitempty"`
	Stage     string    `json:"stage,omitempty"`
	Elections string    `json:"elections,omitempty"`
	TTL       span      `json:"ttl"`
	Seen      time.Time `json:"seen"`
}

// encode returns v as JSON.
func encode(v any) string {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false) // people read it
	if err := e.Encode(v); err != nil {
		panic(err) // cannot happen: the types of this package can be encoded
	}
	return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// decode decodes a value, which may come from any writer. It returns nil if the value is
// invalid.
func decode[V any](value []byte) *V {
	v := new(V)
	if len(value) > maxValue || json.Unmarshal(value, v) != nil {
		return nil
	}
	return v
}

// readRecord is decode for a record, and cleans the parts that are written again.
func readRecord(value []byte) *record {
	r := decode[record](value)
	if r != nil {
		r.Elected, r.Written, r.History = clean.Time(r.Elected), clean.Time(r.Written), clean.History(r.History)
	}
	return r
}
