package electionhttp

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// Options configures a Handler. The zero value is a page that can only be read.
type Options struct {
	// Authorize decides about each action: nil allows it. Its error is logged and
	// not shown to who asked, who gets 403. It runs on the request's goroutine,
	// after the request was found not to come from another site's page, and may
	// use what a wrapper around the handler has put into the request's context.
	// Default: nil, which allows nothing: POST answers 403 and the page has no
	// buttons.
	Authorize func(*http.Request, Action) error

	// Details shows what the store and others have written as free text: the
	// metadata of leaders and members, and the texts of errors, which name hosts and
	// accounts of the store. Default: false; of an error only its class is shown.
	Details bool

	// For is the id of the candidate that /leader answers for, where the manager only
	// observes: a program in another language, beside which it runs. It is answered
	// by what the store has said last, not by the leader's own clock: up to a reading
	// or a push later, and 200 for as long as the lease of a leader that has crashed
	// lasts. So two may answer 200 for a moment. Only with election.Options.Observer.
	// Default: empty; then /leader answers 404 if the manager only observes.
	For string

	// MaxStreams is how many connections may listen to /events at a time; more get
	// 503. 1 to 100,000. Default: 128.
	MaxStreams int

	// Heartbeat is how often a stream that has nothing to say says so, which keeps
	// proxies from cutting it and finds clients that are gone. 10 ms to 1 h.
	// Default: 15 s.
	Heartbeat time.Duration

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

	observer bool // it never leads, so it cannot resign, and pausing it means nothing

	ctx     context.Context // of the handler: done after Close
	cancel  context.CancelFunc
	reading sync.WaitGroup // readLeaderships
	unwatch func()
	hub     *hub
	view    view
	records memo[backend.Record]
	members memo[[]backend.Member]
	renewed memo[*renewalsJSON]
}

//go:embed page
var page embed.FS

type file struct {
	kind string
	data []byte
}

// files are those of the page, by path.
var files = map[string]file{
	"/":          load("index.html", "text/html; charset=utf-8"),
	"/page.css":  load("page.css", "text/css; charset=utf-8"),
	"/page.js":   load("page.js", "text/javascript; charset=utf-8"),
	"/detail.js": load("detail.js", "text/javascript; charset=utf-8"),
	"/kit.js":    load("kit.js", "text/javascript; charset=utf-8"),
	"/icon.svg":  load("icon.svg", "image/svg+xml"),
}

func load(name, kind string) file {
	data, err := page.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is built in
	}
	return file{kind, data}
}

// New returns a handler for what m has joined and will join. It watches m, and
// holds nothing else: m is the caller's to close, before or after the handler.
// Nil options are all defaults; impossible ones are an error of class
// backend.ErrInvalid.
func New(m *election.Manager, options *Options) (*Handler, error) {
	h := &Handler{manager: m, csrf: http.NewCrossOriginProtection()}
	if options != nil {
		h.options = *options
	}
	o := &h.options
	if m == nil {
		return nil, fmt.Errorf("electionhttp: %w: the manager is nil", backend.ErrInvalid)
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 128
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.MaxStreams < 1 || o.MaxStreams > 100_000 {
		return nil, fmt.Errorf("electionhttp: %w: MaxStreams is %d, must be 1 to 100000", backend.ErrInvalid, o.MaxStreams)
	}
	if o.Heartbeat < 10*time.Millisecond || o.Heartbeat > time.Hour {
		return nil, fmt.Errorf("electionhttp: %w: Heartbeat is %v, must be 10ms to 1h", backend.ErrInvalid, o.Heartbeat)
	}
	first := m.Status()
	if h.observer = first.Observer; o.For != "" && !h.observer {
		return nil, fmt.Errorf("electionhttp: %w: For is %q, but the manager is a candidate itself: %q", backend.ErrInvalid, o.For, first.ID)
	}
	if h.log = o.Logger; h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.hub = newHub(rand.Text()[:10], o.Details, o.MaxStreams)
	h.view.sinces = make(map[string]since)
	h.unwatch = m.Watch(h.hub.event)
	h.hub.begin(m.Status().Elections) // after it: nothing is missed between the two
	return h, nil
}

// Close ends all streams, and answers every later request with 503. It does not
// close the manager. A second Close does nothing. Give it to
// [http.Server.RegisterOnShutdown], since Shutdown waits for streams.
func (h *Handler) Close() {
	h.view.mu.Lock() // began starts nothing after this
	h.cancel()
	h.view.mu.Unlock()
	h.unwatch()
	h.reading.Wait()
}

// ServeHTTP answers one request. It may stand behind http.StripPrefix.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard(w.Header())
	if h.ctx.Err() != nil {
		fail(w, http.StatusServiceUnavailable, "closed")
		return
	}
	// The escaped path, since an election's name may contain a slash.
	switch where := r.URL.EscapedPath(); where {
	case "":
		toSlash(w, r)
	case "/healthz":
		h.healthz(w, r)
	case "/readyz":
		h.readyz(w, r)
	case "/elections":
		h.elections(w, r)
	case "/members":
		h.listMembers(w, r)
	case "/changes":
		h.changes(w, r)
	case "/events":
		h.events(w, r)
	case "/actions":
		h.action(w, r)
	default:
		if f, ok := files[where]; ok {
			h.file(w, r, f)
		} else if name, ok := named(where, "/leader/"); ok {
			h.leader(w, r, name)
		} else if name, ok := named(where, "/elections/"); ok {
			h.election(w, r, name)
		} else {
			fail(w, http.StatusNotFound, "there is nothing at this path")
		}
	}
}

// named returns the name that follows prefix in an escaped path.
func named(escaped, prefix string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(escaped, prefix)
	if !ok || rest == "" {
		return "", false
	}
	name, err := url.PathUnescape(rest)
	return name, err == nil
}

// guard sets the headers of every answer. The page loads its own two files and
// talks to its own server; nothing may be inline, and nobody may frame it.
func guard(head http.Header) {
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

// toSlash sends a browser from /prefix to /prefix/, so that the page's relative
// addresses work. What StripPrefix has cut off is only in the request's first line.
func toSlash(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	asked, err := url.ParseRequestURI(r.RequestURI)
	if err != nil || path.Base(asked.Path) == "/" || path.Base(asked.Path) == "." {
		fail(w, http.StatusNotFound, "there is nothing at this path")
		return
	}
	// Relative and escaped: it cannot lead to another host.
	w.Header().Set("Location", "./"+url.PathEscape(path.Base(asked.Path))+"/")
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func (h *Handler) file(w http.ResponseWriter, r *http.Request, f file) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Write(f.data)
}

// allow answers 405 to all other methods.
func allow(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	for _, m := range methods {
		if r.Method == m {
			return true
		}
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	fail(w, http.StatusMethodNotAllowed, "this path answers "+strings.Join(methods, ", "))
	return false
}
