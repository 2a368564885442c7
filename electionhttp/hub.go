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
	maxRecent  = 512 // changes that clients can read later
	maxWaiting = 256 // changes that may wait for one stream
	maxStreams = 128 // connections that may read events at a time
)

// A hub passes events from one watcher to all streams. It waits for no stream: at most
// maxWaiting changes wait for a stream, and a stream that is further behind gets a reset
// instead of them.
type hub struct {
	instance string // part of event ids; other processes have another
	details  bool

	mu      sync.Mutex
	seq     uint64    // of the newest change
	recent  []*change // oldest first
	streams map[*stream]bool
}

// A change is one event, numbered and ready to be sent.
type change struct {
	seq  uint64
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

func newHub(instance string, details bool) *hub {
	return &hub{instance: instance, details: details, streams: make(map[*stream]bool)}
}

// event is the watcher's callback.
func (b *hub) event(ev election.Event) {
	if ev.Reason == election.ReasonCurrent {
		return // the state when the watcher began: nothing has changed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	c := &change{seq: b.seq, json: b.describe(ev)}
	c.json.ID = b.id(c.seq)
	c.data = frame("change", c.json.ID, c.json)
	if len(b.recent) == maxRecent {
		b.recent = append(make([]*change, 0, 2*maxRecent), b.recent[maxRecent/2:]...)
	}
	b.recent = append(b.recent, c)
	for s := range b.streams {
		s.add(c)
	}
}

func (b *hub) id(seq uint64) string { return b.instance + "-" + strconv.FormatUint(seq, 10) }

// number returns the sequence number in an id of this process.
func (b *hub) number(id string) (seq uint64, ok bool) {
	text, ok := strings.CutPrefix(id, b.instance+"-")
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	return seq, err == nil
}

// describe returns an event as JSON shows it.
func (b *hub) describe(ev election.Event) changeJSON {
	c := changeJSON{
		Election: ev.Election, Kind: ev.Kind.String(), Leading: ev.Leading, Leader: candidate(ev.Leader, b.details), Previous: candidate(ev.Previous, b.details),
		Term: term(ev.Term), Reason: string(ev.Reason), Time: ev.Time.UTC(), First: ev.First, Coalesced: ev.Coalesced,
	}
	c.Error, c.Detail = describeError(ev.Err, b.details)
	return c
}

// last returns up to limit changes, newest first, of one election or of all (""). newest is
// the id of the newest change of all, after which a stream resumes.
func (b *hub) last(name string, limit int) (list []changeJSON, newest string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list = []changeJSON{}
	for i := len(b.recent) - 1; i >= 0 && len(list) < limit; i-- {
		if c := b.recent[i]; name == "" || c.json.Election == name {
			list = append(list, c.json)
		}
	}
	return list, b.id(b.seq)
}

// frame returns one event of a stream. A client that was disconnected resumes after the
// last id that it received; events after which it must not resume have no id. The JSON is
// one line, and marshal ends it.
func frame(event, id string, v any) []byte {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Appendf(nil, "%sevent: %s\ndata: %s\n", id, event, marshal(v))
}

// A stream holds the changes that wait for one connection.
type stream struct {
	only string // one election; "": all

	mu      sync.Mutex
	waiting []*change
	dropped bool // more than maxWaiting changes came: some were dropped
	wake    chan struct{}
}

func (s *stream) add(c *change) {
	if s.only != "" && s.only != c.json.Election {
		return
	}
	s.mu.Lock()
	if len(s.waiting) == maxWaiting {
		s.waiting, s.dropped = nil, true
	}
	if !s.dropped {
		s.waiting = append(s.waiting, c)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take removes and returns the waiting changes.
func (s *stream) take() (list []*change, dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, dropped = s.waiting, s.dropped
	s.waiting, s.dropped = nil, false
	return list, dropped
}

// open registers a stream. If the change with the id since is recent enough, the stream
// resumes after it and resumed is true. Otherwise the stream begins with states that are read
// after this, and id is that of the last change before them.
func (b *hub) open(only, since string) (s *stream, resumed bool, id string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.streams) >= maxStreams {
		return nil, false, "", false
	}
	s = &stream{only: only, wake: make(chan struct{}, 1)}
	b.streams[s] = true
	if seq, known := b.number(since); known && seq <= b.seq && b.seq-seq <= uint64(min(len(b.recent), maxWaiting)) {
		for _, c := range b.recent[len(b.recent)-int(b.seq-seq):] {
			s.add(c)
		}
		resumed = true
	}
	return s, resumed, b.id(b.seq), true
}

// restart drops the changes that wait for a stream that has missed some, since states follow that
// include them. It returns the id of the last one.
func (b *hub) restart(s *stream) (id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.take()
	return b.id(b.seq)
}

func (b *hub) close(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.streams, s)
}
