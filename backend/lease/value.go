package lease

import (
	"bytes"
	"encoding/json"
	"time"
	"unique"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// MaxValue is the greatest size in bytes of a value that Decode reads.
const MaxValue = 1 << 20

// A Record is all that the store keeps of an election. Renewals do not write it.
type Record struct {
	// The election, and the number of this write of the key if the driver counts them: a value
	// that somebody copied, edited or put back hardly ever matches both.
	Election string `json:"election"`
	Write    int64  `json:"write,omitempty"`

	Term      uint64    `json:"term"`
	ID        string    `json:"id,omitempty"` // with nonce: the holder; both empty: vacant
	Nonce     string    `json:"nonce,omitempty"`
	Address   string    `json:"address,omitempty"`
	Metadata  string    `json:"metadata,omitempty"`
	TTL       Span      `json:"ttl,omitempty"`
	Renew     Span      `json:"renew,omitempty"`
	Session   string    `json:"session,omitempty"` // the generation of the session that renews it
	Heartbeat Heartbeat `json:"heartbeat"`         // fresh with each grant and release
	Epoch     string    `json:"epoch"`             // of the store; "": to be watched for the greatest TTL

	End     backend.End          `json:"end,omitempty"`
	LastID  string               `json:"last_id,omitempty"`
	Elected time.Time            `json:"elected,omitzero"`
	Written time.Time            `json:"written"`
	History []backend.Leadership `json:"history,omitempty"`

	Request   *Request `json:"request,omitempty"`
	MovedTo   string   `json:"moved_to,omitempty"`   // the seal: the election has moved to that backend
	MovedFrom string   `json:"moved_from,omitempty"` // the election has moved from there, where it is sealed
}

// Lease returns what a record says of an election, and not whether it may be believed, and for how long.
func (r *Record) Lease(election string) backend.Lease {
	l := backend.Lease{
		Election: election, Term: r.Term, Request: r.Request.of(election, r.Term),
		End: r.End, LastID: r.LastID, MovedTo: r.MovedTo, MovedFrom: r.MovedFrom,
	}
	if r.ID != "" || r.Nonce != "" {
		nonce := backend.Nonce(r.Nonce)
		l.Holder = backend.Candidate{ID: r.ID, Nonce: nonce, Address: r.Address, Metadata: r.Metadata}
		l.TTL, l.Renew = time.Duration(r.TTL), time.Duration(r.Renew)
	}
	return l
}

// A Request is an operator's request for the record's term.
type Request struct {
	Kind  backend.RequestKind `json:"kind"`
	ID    string              `json:"id,omitempty"`
	Nonce string              `json:"nonce,omitempty"`
}

// of returns q as a request of an election's term; nothing if q is nil.
func (q *Request) of(election string, term uint64) backend.Request {
	if q == nil || q.Kind == "" {
		return backend.Request{}
	}
	nonce := backend.Nonce(q.Nonce)
	return backend.Request{Election: election, Term: term, Kind: q.Kind, ID: q.ID, Nonce: nonce}
}

// Meta has facts about all records of a store.
type Meta struct {
	Layout  int    `json:"layout"`
	Write   int64  `json:"write,omitempty"` // as in Record
	Made    int64  `json:"made"`            // how many records there are if none was deleted since
	Deleted int64  `json:"deleted"`         // how many were deleted and are no longer counted in Made
	MaxTTL  Span   `json:"max_ttl"`         // the greatest TTL that was ever granted
	Epoch   string `json:"epoch"`
}

// Layout is the version of what this package writes.
const Layout = 1

func (r *Record) number() *int64  { return &r.Write }
func (s *Session) number() *int64 { return &s.Write }
func (m *Meta) number() *int64    { return &m.Write }

// SetWrite notes a number of its write in a value: how often its key was written since it was made,
// or what else the store tells. The driver calls it before it encodes the value.
func SetWrite(v Value, n int64) { *v.number() = n }

// WriteOf returns the number that SetWrite has noted in a value; 0 for none.
func WriteOf(v Value) int64 {
	if v == nil {
		return 0
	}
	return *v.number()
}

// Edited reports whether a value that was read as the n-th write of its key was written by
// somebody else, or is that of another write.
func Edited(v Value, n int64) bool { return v != nil && *v.number() != n }

// A Span is a duration in text, such as "3.333s", without loss.
type Span time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = Span(max(d, 0))
	return err
}

// Encode returns a value as JSON, or what has values.
func Encode(v any) string {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false) // people read it
	if err := e.Encode(v); err != nil {
		panic(err) // cannot happen: the types of this package, and of drivers, can be encoded
	}
	return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

// Decode returns the value of an item of a kind, from any writer; nil if it is invalid.
func Decode(kind Kind, text []byte) Value {
	if len(text) > MaxValue {
		return nil
	}
	switch kind {
	case Records:
		if r := decode[Record](text); r != nil {
			r.Elected, r.Written = clean.Time(r.Elected), clean.Time(r.Written)
			r.History = clean.History(r.History)
			texts := []*string{&r.Epoch, &r.ID, &r.Nonce, &r.Session, &r.Address, &r.Metadata}
			texts = append(texts, &r.LastID, (*string)(&r.End))
			for i := range r.History {
				texts = append(texts, &r.History[i].ID, (*string)(&r.History[i].End))
			}
			for _, text := range texts { // many records have the same
				*text = unique.Make(*text).Value()
			}
			return r
		}
	case Sessions:
		if s := decode[Session](text); s != nil {
			s.At = clean.Time(s.At)
			return s
		}
	case Metas:
		if m := decode[Meta](text); m != nil {
			return m
		}
	}
	return nil
}

func decode[V any](text []byte) *V {
	v := new(V)
	if json.Unmarshal(text, v) != nil {
		return nil
	}
	return v
}
