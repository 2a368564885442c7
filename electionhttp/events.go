package electionhttp

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	writeTimeout = 10 * time.Second // how long a client may take to accept data
	maxStreams   = 128              // connections that may read events at a time

	// heartbeatEvery is how often an idle stream carries a comment, which keeps proxies from cutting it and
	// detects clients that are gone.
	heartbeatEvery = 15 * time.Second
)

// events sends every change as it happens, until the client goes away, or the handler
// or the manager is closed.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	only := query.Get("election")
	if only != "" && h.manager.Election(only) == nil {
		fail(w, http.StatusNotFound, "this process has not joined this election")
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, "too many streams are open")
		return
	}
	since := cmp.Or(r.Header.Get("Last-Event-ID"), query.Get("since"))
	h.sendChanges(r.Context(), since, only, query.Get("states") != "no", startStream(w))
}

// startStream sends the headers of a stream and returns a function that sends data and
// reports whether the client has accepted it in time.
func startStream(w http.ResponseWriter) (send func([]byte) bool) {
	// The server's own time limits are for requests that end. What has none cannot set one, either.
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Time{})
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
	return func(data []byte) bool {
		control.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err := w.Write(data)
		return err == nil && control.Flush() == nil
	}
}

// sendChanges sends the changes after one, of one election or of all (""), until the stream ends. If that
// change is too old, or not of this process, the stream begins with the states, and so it does again when
// its client is too slow.
func (h *Handler) sendChanges(ctx context.Context, since, only string, states bool, send func([]byte) bool) {
	heartbeat := time.NewTicker(heartbeatEvery)
	defer heartbeat.Stop()
	data := []byte("retry: 2000\n: this stream ends when its server does\n\n")
	reset := since != "" // the client has changes before those that follow
	for sent := h.seen.number(since); ; {
		list, newest, next, ok := h.seen.after(sent)
		if !ok {
			if reset {
				data = append(data, frame("reset", "", struct{}{})...)
			}
			data = h.appendStates(data, h.seen.id(newest), only, states)
		}
		for _, c := range list {
			if only == "" || only == c.Election {
				data = append(data, frame("change", c.ID, c)...)
			}
		}
		if len(data) > 0 && !send(data) {
			return
		}
		data, reset, sent = nil, true, newest

		select {
		case <-next:
		case <-heartbeat.C:
			data = []byte(": still here\n\n")
		case <-ctx.Done():
			return
		case <-h.ctx.Done():
			return
		case <-h.manager.Done():
			return
		}
	}
}

// appendStates appends the states of all elections, or of one, and then the id to resume at. Each change ends
// the snapshots before it, so they include all up to it; one that follows at once may be in both.
func (h *Handler) appendStates(data []byte, id, only string, wanted bool) []byte {
	if wanted {
		s, _ := h.snapshot()
		for _, e := range s.Elections {
			if only == "" || only == e.Election {
				data = append(data, frame("state", "", changeOf("", e.Event, h.options.Details))...)
			}
		}
	}
	return append(data, frame("ready", id, struct{}{})...)
}

// frame returns one event of a stream. A client that was disconnected resumes after the last id that it
// received; events after which it must not resume have no id. The JSON is one line, and marshal ends it.
func frame(event, id string, v any) []byte {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Appendf(nil, "%sevent: %s\ndata: %s\n", id, event, marshal(v))
}
