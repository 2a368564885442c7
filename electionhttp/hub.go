package electionhttp

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/election"
)

const (
	kept   = 512 // changes that can be read later
	behind = 256 // changes that may wait for one stream
)

// A hub takes events from one watcher and hands them to all streams. Taking one
// waits for nobody: what waits for a stream is bounded, and a stream that falls
// further behind is told that it has missed some.
type hub struct {
	instance string // makes event ids of this process unlike those of another
	details  bool
	most     int

	mu      sync.Mutex
	seq     uint64
	ring    []*change // the last ones, oldest first
	states  map[string]election.Event
	streams map[*stream]bool
}

// A change is one event, numbered and ready to be sent.
type change struct {
	seq  uint64
	name string
	at   time.Time
	json changeJSON
	data []byte // json, as an event of the stream
}

type changeJSON struct {
	ID        string         `json:"id"`
	Election  string         `json:"election"`
	Kind      string         `json:"kind"`
	Leading   bool           `json:"leading"`
	Leader    *candidateJSON `json:"leader"`
	Previous  *candidateJSON `json:"previous"`
	Term      string         `json:"term"`
	Reason    string         `json:"reason"`
	Error     string         `json:"error,omitempty"`
	Detail    string         `json:"detail,omitempty"`
	Time      time.Time      `json:"time"`
	First     bool           `json:"first,omitempty"`
	Coalesced int            `json:"coalesced,omitempty"`
}

func newHub(instance string, details bool, most int) *hub {
	return &hub{instance: instance, details: details, most: most, states: make(map[string]election.Event), streams: make(map[*stream]bool)}
}

// begin takes in how things are. The watcher says so too, but a moment later, and a
// stream may be opened before.
func (b *hub) begin(list []election.ElectionStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range list {
		if _, known := b.states[e.Election]; !known {
			b.states[e.Election] = e.Event
		}
	}
}

// event is the watcher's callback.
func (b *hub) event(ev election.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case ev.Reason == election.ReasonCurrent:
		if _, known := b.states[ev.Election]; !known {
			b.states[ev.Election] = ev
		}
		return // how things were when the watcher began; nothing has changed
	case ev.Kind != election.Notice:
		b.states[ev.Election] = ev
	}
	b.seq++
	c := &change{seq: b.seq, name: ev.Election, at: ev.Time, json: b.describe(ev)}
	c.json.ID = b.id(c.seq)
	c.data = frame("change", c.json.ID, c.json)
	if len(b.ring) == kept {
		b.ring = append(make([]*change, 0, 2*kept), b.ring[kept/2:]...)
	}
	b.ring = append(b.ring, c)
	for s := range b.streams {
		s.add(c)
	}
}

func (b *hub) id(seq uint64) string { return b.instance + "-" + strconv.FormatUint(seq, 10) }

// number reads an id of ours.
func (b *hub) number(id string) (seq uint64, ok bool) {
	text, ok := strings.CutPrefix(id, b.instance+"-")
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	return seq, err == nil
}

// describe is an event as JSON shows it.
func (b *hub) describe(ev election.Event) changeJSON {
	c := changeJSON{
		Election: ev.Election, Kind: ev.Kind.String(), Leading: ev.Leading, Leader: candidate(ev.Leader, b.details), Previous: candidate(ev.Previous, b.details),
		Term: term(ev.Term), Reason: string(ev.Reason), Time: ev.Time.UTC(), First: ev.First, Coalesced: ev.Coalesced,
	}
	c.Error, c.Detail = describeError(ev.Err, b.details)
	return c
}

// number of the newest change.
func (b *hub) newest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seq
}

// last returns up to limit changes, newest first, of one election or of all (""), and
// the id of the newest of all, from which a stream goes on.
func (b *hub) last(name string, limit int) (list []changeJSON, newest string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list = []changeJSON{}
	for i := len(b.ring) - 1; i >= 0 && len(list) < limit; i-- {
		if c := b.ring[i]; name == "" || c.name == name {
			list = append(list, c.json)
		}
	}
	return list, b.id(b.seq)
}

// frame is one event of a stream. A client that is cut off resumes at the last id
// that it was sent; events that are not to be resumed after have none. JSON has
// no line breaks of its own, and marshal ends with one.
func frame(event, id string, v any) []byte {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Appendf(nil, "%sevent: %s\ndata: %s\n", id, event, marshal(v))
}

// A stream is what waits for one connection.
type stream struct {
	only string // the election it asks for; "": all

	mu      sync.Mutex
	waiting []*change
	lost    bool // more than can wait: some were dropped
	wake    chan struct{}
}

func (s *stream) add(c *change) {
	if s.only != "" && s.only != c.name {
		return
	}
	s.mu.Lock()
	if len(s.waiting) == behind {
		s.waiting, s.lost = nil, true
	}
	if !s.lost {
		s.waiting = append(s.waiting, c)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns what waits.
func (s *stream) take() (list []*change, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, lost = s.waiting, s.lost
	s.waiting, s.lost = nil, false
	return list, lost
}

// open registers a stream that has heard everything up to the change with id
// since, if it is still known. resumed says so; otherwise states says where it
// begins, and id what comes before the first change that it will hear.
func (b *hub) open(only, since string) (s *stream, resumed bool, states []election.Event, id string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.streams) >= b.most {
		return nil, false, nil, "", false
	}
	s = &stream{only: only, wake: make(chan struct{}, 1)}
	b.streams[s] = true
	if seq, known := b.number(since); known && seq <= b.seq && b.seq-seq <= uint64(min(len(b.ring), behind)) {
		for _, c := range b.ring[len(b.ring)-int(b.seq-seq):] {
			s.add(c)
		}
		return s, true, nil, b.id(seq), true
	}
	return s, false, b.statesOf(only), b.id(b.seq), true
}

// again returns the states for a stream that has missed some changes, and drops
// what waits for it: that is in them.
func (b *hub) again(s *stream) (states []election.Event, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.take()
	return b.statesOf(s.only), b.id(b.seq)
}

func (b *hub) statesOf(only string) (states []election.Event) {
	for name, ev := range b.states {
		if only == "" || only == name {
			states = append(states, ev)
		}
	}
	return states
}

func (b *hub) shut(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s)
}

// forget drops the state of an election that was left, unless it was joined again:
// then its events are still to come.
func (b *hub) forget(name string, m *election.Manager) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.Election(name) == nil {
		delete(b.states, name)
	}
}
