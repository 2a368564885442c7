package curator

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A record is the persistent state of an election, kept as JSON. Only members of this
// module write it, each by compare-and-swap of its version. Somebody leads if Holder is
// set.
type record struct {
	Election  string               `json:"election"`
	Term      uint64               `json:"term"`
	Heartbeat uint64               `json:"heartbeat,string"` // of the last grant or release
	Holder    *holder              `json:"holder,omitempty"`
	End       backend.End          `json:"end,omitempty"` // of the last leadership that has ended
	LastID    string               `json:"last_id,omitempty"`
	Request   *request             `json:"request,omitempty"`
	History   []backend.Leadership `json:"history,omitempty"`

	// The marks of a migration. See seal.go.
	MovedTo   string `json:"moved_to,omitempty"`
	MovedFrom string `json:"moved_from,omitempty"`

	// Set until the grant that created the record is confirmed: which records had been
	// deleted before. See Backend.confirmNewRecord.
	Unconfirmed string `json:"making,omitempty"`
}

// A holder describes the present leadership.
type holder struct {
	ID       string    `json:"id"`
	Nonce    string    `json:"nonce"`
	Address  string    `json:"address,omitempty"`
	Metadata string    `json:"metadata,omitempty"`
	TTL      duration  `json:"ttl"`
	Renew    duration  `json:"renew"`
	Elected  time.Time `json:"elected"` // by the servers' clock
	Node     string    `json:"node"`    // its lock node: the child's name, or the node's czxid
	Session  string    `json:"session"` // the session that owns the node
	Grant    int       `json:"grant"`   // number of the grant in that session
}

type request struct {
	Term  uint64              `json:"term"`
	Kind  backend.RequestKind `json:"kind"`
	ID    string              `json:"id,omitempty"`
	Nonce string              `json:"nonce,omitempty"`
}

// A duration is written like 1.5s.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(max(v, 0))
	return err
}

// maxRecord limits the records that are read. Ours have at most some 30 KiB.
const maxRecord = 256 << 10

// parseRecord reads the record of an election. Anyone may have written it.
func parseRecord(data []byte, election string) (*record, error) {
	if len(data) > maxRecord {
		return nil, fmt.Errorf("it has %d bytes", len(data))
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, errors.New(clean.Text(err.Error(), 200, false)) // the error quotes the data
	}
	if r.Election != election || r.Term == 0 || r.Heartbeat == 0 {
		return nil, fmt.Errorf("it belongs to another election, or has no term or heartbeat")
	}
	if h := r.Holder; h != nil && (h.ID == "" || h.Nonce == "" || h.TTL <= 0 || !plainNode(h.Node) || !plainNode(h.Session)) {
		return nil, fmt.Errorf("its holder is incomplete")
	}
	if r.Holder != nil {
		r.Holder.Elected = clean.Time(r.Holder.Elected)
	}
	// What we write back must not be longer than what we write ourselves.
	r.History = clean.History(r.History)
	r.End = backend.End(clean.Text(string(r.End), 16, false))
	r.LastID = clean.Text(r.LastID, backend.MaxID, false)
	r.MovedTo, r.MovedFrom = clean.Text(r.MovedTo, backend.MaxMark, false), clean.Text(r.MovedFrom, backend.MaxMark, false)
	if w := r.Request; w != nil {
		w.Kind = backend.RequestKind(clean.Text(string(w.Kind), 16, false))
		w.ID, w.Nonce = clean.Text(w.ID, backend.MaxID, false), clean.Text(w.Nonce, 64, false)
	}
	return &r, nil
}

// plainNode reports whether a name from the store may become part of a path.
func plainNode(name string) bool {
	if name == "" || len(name) > 255 || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == '/' {
			return false
		}
	}
	return true
}

func (r *record) encode() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic("curator: a record cannot be written as JSON: " + err.Error()) // strings and numbers only; times are checked
	}
	return data
}

// clone returns a copy that may be changed.
func (r *record) clone() *record {
	c := *r
	c.History = slices.Clone(r.History)
	return &c
}

// endLeadership ends the present leadership, if there is one. Its lease expired lapsed ago;
// 0: not known.
func (r *record) endLeadership(how backend.End, now time.Time, lapsed time.Duration) {
	h := r.Holder
	if h == nil {
		return
	}
	r.History = clean.Remember(r.History, backend.Leadership{Term: r.Term, ID: h.ID, From: h.Elected}, how, now, lapsed)
	r.End, r.LastID, r.Holder = how, h.ID, nil
}

// heldBy reports whether the record says that this nonce leads in this term; 0: any.
func (r *record) heldBy(nonce backend.Nonce, term uint64) bool {
	return r != nil && r.Holder != nil && r.Holder.Nonce == string(nonce) && (term == 0 || r.Term == term)
}

// namesGrant reports whether the record shows everyone this lease, with its session and
// grant. Otherwise followers would look for the renewals of another grant.
func (r *record) namesGrant(l backend.Held, session int64, grant int) bool {
	return r.heldBy(l.Holder.Nonce, l.Term) && r.Unconfirmed == "" && r.Holder.Session == sessionName(session) && r.Holder.Grant == grant
}

func (h *holder) candidate() backend.Candidate {
	return backend.Candidate{ID: h.ID, Nonce: backend.Nonce(h.Nonce), Address: h.Address, Metadata: h.Metadata}
}

// lease returns what the record alone says of the lease, as vacant.
func (r *record) lease() backend.Lease {
	l := backend.Lease{Election: r.Election, Term: r.Term, End: r.End, LastID: r.LastID,
		MovedTo: r.MovedTo, MovedFrom: r.MovedFrom}
	if w := r.Request; w != nil {
		l.Request = backend.Request{Election: r.Election, Term: w.Term, Kind: w.Kind, ID: w.ID, Nonce: backend.Nonce(w.Nonce)}
	}
	return l
}

// newHeartbeat returns a fresh heartbeat, never 0, which stands for "none".
func newHeartbeat() uint64 { return rand.Uint64() | 1 }

// version makes the Version of a lease of its heartbeat and of the node that leads, or what
// else a challenger must observe unchanged.
func version(heartbeat uint64, ref string) string {
	if len(ref) > 300 { // no member makes such a name
		ref = strconv.FormatUint(mix(0, ref), 36)
	}
	return strconv.FormatUint(heartbeat, 36) + " " + ref
}

// mix derives another heartbeat, never 0, from a heartbeat and a text.
func mix(heartbeat uint64, about string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%016x %s", heartbeat, about)
	x := h.Sum64() ^ heartbeat
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29 | 1
}
