package electionhttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-election/go-election/election"
)

const (
	writeTimeout = 10 * time.Second // how long a client may take to accept data

	// heartbeatEvery is how often an idle stream carries a comment, which keeps proxies from cutting it and detects
	// clients that are gone.
	heartbeatEvery = 15 * time.Second
)

// events sends every change as it happens, until the client goes away, or the handler
// or the manager is closed.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	only, states := query.Get("election"), query.Get("states") != "no"
	if r.Method == http.MethodHead { // which has no body, and would wait for ever
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	select {
	case <-h.manager.Done():
		fail(w, http.StatusServiceUnavailable, "the manager is closed")
		return
	default:
	}
	if only != "" && h.manager.Election(only) == nil {
		fail(w, http.StatusNotFound, "this process has not joined this election")
		return
	}
	since := cmp.Or(r.Header.Get("Last-Event-ID"), query.Get("since"))
	s, resumed, id, ok := h.hub.open(only, since)
	if !ok {
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, "too many streams are open")
		return
	}
	defer h.hub.close(s)
	send, ok := startStream(w)
	if !ok {
		return
	}
	hello := []byte("retry: 2000\n: this stream ends when its server does\n\n")
	if !resumed {
		if since != "" {
			hello = append(hello, frame("reset", "", struct{}{})...)
		}
		hello = h.appendStates(hello, id, only, states)
	}
	if send(hello) {
		h.sendChanges(r.Context(), s, states, send)
	}
}

// startStream sends the headers of a stream and returns a function that sends data and
// reports whether the client has accepted it in time.
func startStream(w http.ResponseWriter) (send func([]byte) bool, ok bool) {
	// The server's own time limits are for requests that end.
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, false
	}
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
	return func(data []byte) bool {
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return false
		}
		_, err := w.Write(data)
		return err == nil && control.Flush() == nil
	}, true
}

// sendChanges sends the changes of a stream until the stream ends.
func (h *Handler) sendChanges(ctx context.Context, s *stream, states bool, send func([]byte) bool) {
	heartbeat := time.NewTicker(heartbeatEvery)
	defer heartbeat.Stop()
	for {
		select {
		case <-s.wake:
			list, dropped := s.take()
			var data []byte
			if dropped {
				id := h.hub.restart(s)
				data = h.appendStates(frame("reset", "", struct{}{}), id, s.only, states)
			}
			for _, c := range list {
				data = append(data, c.data...)
			}
			if len(data) > 0 && !send(data) {
				return
			}
		case <-heartbeat.C:
			if !send([]byte(": still here\n\n")) {
				return
			}
		case <-ctx.Done():
			return
		case <-h.ctx.Done():
			return
		case <-h.manager.Done():
			return
		}
	}
}

// appendStates appends the states of all elections, or of one, and then the id to resume at. It reads them
// after that id, so they include all changes up to it; one that follows at once may be in both.
func (h *Handler) appendStates(data []byte, id, only string, wanted bool) []byte {
	if wanted {
		list := h.manager.Status().Elections
		slices.SortFunc(list, func(a, b election.ElectionStatus) int { return cmp.Compare(a.Election, b.Election) })
		for _, e := range list {
			if only == "" || only == e.Election {
				data = append(data, frame("state", "", h.hub.describe(e.Event))...)
			}
		}
	}
	return append(data, frame("ready", id, struct{}{})...)
}

// changes lists the last changes that this process has observed.
func (h *Handler) changes(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", 100, maxRecent)
	if !ok {
		return
	}
	list, newest := h.hub.last(r.URL.Query().Get("election"), limit)
	reply(w, http.StatusOK, struct {
		Now     time.Time    `json:"now"`
		Newest  string       `json:"newest"` // the id to resume /events at; also of an empty list
		Changes []changeJSON `json:"changes"`
	}{time.Now().UTC(), newest, list})
}
