package electionhttp

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// Options configures a Handler. With the zero value nothing can be changed over HTTP.
type Options struct {
	// Authorize decides about each action: nil allows it. An error is logged; the client sees only 403.
	// Authorize runs on the request's goroutine, with its context, after the check that it does not come from
	// another site's page. Default: nil, which allows nothing: POST answers 403, and the page has no buttons.
	Authorize func(*http.Request, Action) error

	// Details shows the free text of other processes and of the store: the metadata
	// of leaders and members, and the texts of errors, which name hosts and accounts
	// of the store. Default: false; then only the class of an error is shown.
	Details bool

	// Logger receives actions, allowed or not. Default: nothing is logged.
	Logger *slog.Logger
}

// A Handler serves the status of one manager over HTTP. It is safe for concurrent use.
type Handler struct {
	manager *election.Manager
	options Options
	log     *slog.Logger
	csrf    *http.CrossOriginProtection
	mux     *http.ServeMux

	observer bool // the manager never leads, so it cannot pause or resign

	ctx       context.Context // done after Close
	cancel    context.CancelFunc
	unwatch   func()
	seen      changeLog
	streams   chan struct{} // has an element for each stream
	snapshots cache[snapshot]
	records   cache[backend.Record]
	members   cache[membership]
	sinces    cache[sinces]
}

//go:embed page
var page embed.FS

// New returns a handler for the elections that m joins. The caller closes m, before or after the handler.
// Without m the error is of class backend.ErrInvalid.
func New(m *election.Manager, options Options) (*Handler, error) {
	if m == nil {
		return nil, fmt.Errorf("electionhttp: %w: the manager is nil", backend.ErrInvalid)
	}
	h := &Handler{manager: m, options: options, observer: m.Status().Observer}
	h.csrf, h.mux = http.NewCrossOriginProtection(), http.NewServeMux()
	h.log = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	h.routes()
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.seen = changeLog{instance: rand.Text()[:10], next: make(chan struct{})}
	h.streams = make(chan struct{}, maxStreams)
	h.snapshots.keep = 100 * time.Millisecond // they cost the manager's loop time; strangers may ask often
	h.records.keep = keepRead
	h.members.keep = keepRead
	h.sinces.keep = keepSinces
	h.unwatch = m.Watch(h.changed)
	return h, nil
}

// Close ends all streams, and answers every later request with 503. It does not close the manager. A second
// Close does nothing. Give it to [http.Server.RegisterOnShutdown], since Shutdown waits for streams.
func (h *Handler) Close() {
	h.cancel()
	h.unwatch()
}

// ServeHTTP answers one request. It may stand behind http.StripPrefix.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	if h.ctx.Err() != nil {
		fail(w, http.StatusServiceUnavailable, "closed")
		return
	}
	h.mux.ServeHTTP(w, r)
}

// routes sets what answers at each path. GET stands for HEAD as well.
func (h *Handler) routes() {
	h.mux.HandleFunc("GET /leader/{name...}", h.leader)
	h.mux.HandleFunc("OPTIONS /leader/{name...}", h.leader)
	h.mux.HandleFunc("GET /healthz", h.healthz)
	h.mux.HandleFunc("GET /readyz", h.readyz)
	h.mux.HandleFunc("GET /elections", h.elections)
	h.mux.HandleFunc("GET /elections/{name...}", h.election)
	h.mux.HandleFunc("GET /changes", h.changes)
	h.mux.HandleFunc("GET /events", h.events)
	h.mux.HandleFunc("POST /actions", h.action)
	files, _ := fs.Sub(page, "page") // the name is valid
	for _, path := range []string{"/{$}", "/page.css", "/page.js", "/detail.js", "/kit.js", "/icon.svg"} {
		h.mux.Handle("GET "+path, http.FileServerFS(files))
	}
}

// setSecurityHeaders sets the headers of every answer. The page may load files and call
// paths of its own server only; nothing is inline, and no other page can frame it.
func setSecurityHeaders(head http.Header) {
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; "+
		"img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
}

// number reads a number from 0 to limit from the query.
func number(w http.ResponseWriter, r *http.Request, key string, def, limit int) (n int, ok bool) {
	text := r.URL.Query().Get(key)
	if text == "" {
		return def, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > limit {
		fail(w, http.StatusBadRequest, key+" must be a number from 0 to "+strconv.Itoa(limit))
		return 0, false
	}
	return n, true
}

func marshal(v any) []byte {
	data, _ := json.Marshal(v) // only a time out of range can fail, and no caller has one
	return append(data, '\n')
}

// reply writes JSON. It escapes <, > and &, so that a client that takes the text for
// HTML finds no tags in it.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(marshal(v))
}

func fail(w http.ResponseWriter, status int, text string) {
	reply(w, status, errorJSON{Error: text})
}
