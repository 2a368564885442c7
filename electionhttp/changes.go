package electionhttp

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/election"
)

const (
	maxRecent = 512 // changes that clients can read later
	maxBehind = 256 // changes that a stream may be behind; one that is further behind begins again
)

// A changeLog has the events of the manager, numbered from 1. A stream keeps only the number of the last
// change that it has sent, so a slow one delays no other.
type changeLog struct {
	instance string // part of ids; other processes have another

	mu     sync.Mutex
	newest uint64        // the number of the last one
	recent []Change      // the last ones, oldest first
	next   chan struct{} // closed by the next one
}

// A Change is the JSON of an event: a change of leader, a notice, or the state at first. /changes and
// /events have changes, and each line of "elect watch --json" is one.
type Change struct {
	ID string `json:"id,omitempty"` // its place in the list of the process that serves /events
	State
	Time      time.Time `json:"time"`                // when this process observed it, by its own clock
	First     bool      `json:"first,omitempty"`     // the state before was unknown: it may be no change
	Coalesced int       `json:"coalesced,omitempty"` // own leaderships without events of their own
}

// NewChange returns the JSON of an event, with the text of its error and with all metadata, and without ID.
func NewChange(ev election.Event) Change { return changeOf("", ev, true) }

func changeOf(id string, ev election.Event, details bool) Change {
	return Change{id, stateOf(ev, details), ev.Time.UTC(), ev.First, ev.Coalesced}
}

// changed is the callback of the handler's watcher.
func (h *Handler) changed(ev election.Event) {
	h.snapshots.clear()
	if ev.Reason == election.ReasonCurrent {
		return // the state when the watcher began: nothing has changed
	}
	c := &h.seen
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest++
	c.recent = append(c.recent, changeOf(c.id(c.newest), ev, h.options.Details))
	if len(c.recent) > maxRecent {
		c.recent = c.recent[1:] // and not in place: streams are reading the others
	}
	close(c.next)
	c.next = make(chan struct{})
}

func (c *changeLog) id(number uint64) string {
	return c.instance + "-" + strconv.FormatUint(number, 10)
}

// number returns the number in an id; one that no change has if the id is not of this process.
func (c *changeLog) number(id string) uint64 {
	text, ok := strings.CutPrefix(id, c.instance+"-")
	number, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil {
		return math.MaxUint64
	}
	return number
}

// after returns the changes after a number, and the number of the newest of all; next is closed by the one
// after that. ok is false if that number is none of this process, or if too many have followed.
func (c *changeLog) after(number uint64) (list []Change, newest uint64, next <-chan struct{}, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	behind := c.newest - number
	if number > c.newest || behind > uint64(min(len(c.recent), maxBehind)) {
		return nil, c.newest, c.next, false
	}
	return c.recent[len(c.recent)-int(behind):], c.newest, c.next, true
}

// changes lists the last changes that this process has observed, newest first.
func (h *Handler) changes(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", 100, maxRecent)
	if !ok {
		return
	}
	only := r.URL.Query().Get("election")
	h.seen.mu.Lock()
	recent, newest := h.seen.recent, h.seen.newest
	h.seen.mu.Unlock()

	list := []Change{}
	for _, c := range slices.Backward(recent) {
		if len(list) < limit && (only == "" || only == c.Election) {
			list = append(list, c)
		}
	}
	reply(w, http.StatusOK, struct {
		Now     time.Time `json:"now"`
		Newest  string    `json:"newest"` // the id to resume /events at; also of an empty list
		Changes []Change  `json:"changes"`
	}{time.Now().UTC(), h.seen.id(newest), list})
}
