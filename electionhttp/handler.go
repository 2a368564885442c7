package electionhttp

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// Options configures a Handler. With the zero value nothing can be changed over HTTP.
type Options struct {
	// Authorize decides about each action: nil allows it. An error is logged; the
	// client sees only 403. Authorize runs on the request's goroutine, after the
	// check that the request does not come from another site's page. It may use
	// values that a wrapper around the handler has put into the request's context.
	// Default: nil, which allows nothing: POST answers 403 and the page has no
	// buttons.
	Authorize func(*http.Request, Action) error

	// Details shows the free text of other processes and of the store: the metadata
	// of leaders and members, and the texts of errors, which name hosts and accounts
	// of the store. Default: false; then only the class of an error is shown.
	Details bool

	// Logger receives actions, allowed or not. Default: nothing is logged.
	Logger *slog.Logger
}

// A Handler serves the status of one manager over HTTP. It is safe for concurrent
// use. See the package documentation for its paths.
type Handler struct {
	manager *election.Manager
	options Options
	log     *slog.Logger
	csrf    *http.CrossOriginProtection
	paths   map[string]route

	observer bool // the manager never leads, so it cannot pause or resign

	ctx       context.Context // done after Close
	cancel    context.CancelFunc
	unwatch   func()
	hub       *hub
	reads     reads
	snapshots cache[snapshot]
	records   cache[backend.Record]
	members   cache[membership]
	sinces    cache[sinces]
}

//go:embed page
var page embed.FS

type file struct{ name, kind string }

// files are the files of the page, by path. Their types do not depend on the tables of the machine.
var files = map[string]file{
	"/":          {"index.html", "text/html; charset=utf-8"},
	"/page.css":  {"page.css", "text/css; charset=utf-8"},
	"/page.js":   {"page.js", "text/javascript; charset=utf-8"},
	"/detail.js": {"detail.js", "text/javascript; charset=utf-8"},
	"/kit.js":    {"kit.js", "text/javascript; charset=utf-8"},
	"/icon.svg":  {"icon.svg", "image/svg+xml"},
}

// New returns a handler for the elections that m has joined and will join. It watches
// m; the caller closes m, before or after the handler. Without m it returns an error of
// class backend.ErrInvalid.
func New(m *election.Manager, options Options) (*Handler, error) {
	h := &Handler{manager: m, options: options, csrf: http.NewCrossOriginProtection()}
	if m == nil {
		return nil, fmt.Errorf("electionhttp: %w: the manager is nil", backend.ErrInvalid)
	}
	h.observer = m.Status().Observer
	if h.log = options.Logger; h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.fillPaths()
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.hub = newHub(rand.Text()[:10], options.Details)
	h.snapshots = newCache[snapshot](&h.reads, keepSnapshot)
	h.records = newCache[backend.Record](&h.reads, keepRead)
	h.members = newCache[membership](&h.reads, keepRead)
	h.sinces = newCache[sinces](&h.reads, keepSinces)
	h.unwatch = m.Watch(func(ev election.Event) {
		h.hub.event(ev)
		h.snapshots.clear()
	})
	return h, nil
}

// Close ends all streams, and answers every later request with 503. It does not
// close the manager. A second Close does nothing. Give it to
// [http.Server.RegisterOnShutdown], since Shutdown waits for streams.
func (h *Handler) Close() {
	h.cancel()
	h.unwatch()
	h.reads.close()
}

// ServeHTTP answers one request. It may stand behind http.StripPrefix.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	if h.ctx.Err() != nil {
		fail(w, http.StatusServiceUnavailable, "closed")
		return
	}
	escaped := r.URL.EscapedPath() // since an election's name may contain a slash
	p, ok := h.paths[escaped]
	if name, found := nameAfter("/leader/", escaped); found {
		p, ok = route{[]string{http.MethodGet, http.MethodHead, http.MethodOptions}, func(w http.ResponseWriter, r *http.Request) { h.leader(w, name) }}, true
	} else if name, found := nameAfter("/elections/", escaped); found {
		p, ok = route{reading, func(w http.ResponseWriter, r *http.Request) { h.election(w, name) }}, true
	}
	if !ok {
		fail(w, http.StatusNotFound, "there is nothing at this path")
	} else if !slices.Contains(p.methods, r.Method) {
		w.Header().Set("Allow", strings.Join(p.methods, ", "))
		fail(w, http.StatusMethodNotAllowed, "the method must be "+strings.Join(p.methods, " or "))
	} else {
		p.answer(w, r)
	}
}

// A route is what answers at a path, to these methods.
type route struct {
	methods []string
	answer  http.HandlerFunc
}

var reading = []string{http.MethodGet, http.MethodHead}

// fillPaths sets the paths that have no name in them.
func (h *Handler) fillPaths() {
	h.paths = map[string]route{
		"/healthz":   {reading, h.healthz},
		"/readyz":    {reading, h.readyz},
		"/elections": {reading, h.elections},
		"/changes":   {reading, h.changes},
		"/events":    {[]string{http.MethodGet}, h.events},
		"/actions":   {[]string{http.MethodPost}, h.action},
	}
	for name, f := range files {
		h.paths[name] = route{reading, f.answer}
	}
}

// nameAfter returns the name that follows prefix in an escaped path.
func nameAfter(prefix, escaped string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(escaped, prefix)
	if !ok || rest == "" {
		return "", false
	}
	name, err := url.PathUnescape(rest)
	return name, err == nil
}

// setSecurityHeaders sets the headers of every answer. The page may load files and call
// paths of its own server only; nothing is inline, and no other page can frame it.
func setSecurityHeaders(head http.Header) {
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Frame-Options", "DENY")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
}

func (f file) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", f.kind)
	http.ServeFileFS(w, r, page, "page/"+f.name)
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
	data, err := json.Marshal(v)
	if err != nil { // only a time out of range can fail, and no caller has one
		return []byte(`{"error":"cannot be written as JSON"}`)
	}
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
	reply(w, status, errorJSON{text})
}

type errorJSON struct {
	Error string `json:"error"`
}

// failStore answers after an error of the store or of the manager.
func (h *Handler) failStore(w http.ResponseWriter, err error) {
	class, text := describeError(err, h.options.Details)
	status := map[string]int{"denied": http.StatusBadGateway, "invalid": http.StatusConflict, "stale": http.StatusConflict}[class]
	reply(w, cmp.Or(status, http.StatusServiceUnavailable), struct {
		Error  string `json:"error"`
		Detail string `json:"detail,omitempty"`
	}{class, text})
}
