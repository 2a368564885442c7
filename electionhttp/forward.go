package electionhttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// TermHeader carries the term of a leadership, as decimal digits. [Forward] sets it in every request that it
// hands to the leader's handler, and in the answer.
const TermHeader = "Election-Term"

// forwardedHeader names the process that has forwarded a request. Such a request is not forwarded again.
const forwardedHeader = "Election-Forwarded"

// maxReplay is the largest body in bytes of a request that can be sent a second time.
const maxReplay = 64 << 10

// ForwardOptions configure [Forward].
type ForwardOptions struct {
	// Wait is how long a request may wait while nobody leads, and, if the leader cannot be reached, for the
	// next one. Negative: not at all. Default: 10 s.
	Wait time.Duration

	// URL returns where a leader serves. Default: its Address, which may be host:port or a URL that begins
	// with http:// or https://. The address comes from the store: whoever can write to the store can direct
	// requests elsewhere, so a URL function should refuse what is not one of your hosts. An error answers
	// 502.
	URL func(leader election.Candidate) (*url.URL, error)

	// Transport sends requests to the leader. Default: like [http.DefaultTransport], without a proxy.
	Transport http.RoundTripper
}

// Forward returns a handler that serves requests where the election is led. While this process leads, next
// serves them; elsewhere they go to the leader, and its answer comes back.
//
//	h, err := electionhttp.Forward(e, api, electionhttp.ForwardOptions{}) // e is an election.Election
//	http.Handle("/", h)
//
// All members serve the same handler, at the Address in their election.Options. While nobody leads, a request
// waits; after ForwardOptions.Wait the answer is 503. If the leader cannot be reached, a request whose method
// is idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE) and whose body has at most 64 KiB is sent once more
// when another process leads. Any other is never sent twice: the answer is 502, and the leader may have
// served the request. A request whose leader was followed by another one is given up.
//
// Request and answer have the leader's term in [TermHeader]: next sends it with every write, so that the
// systems it writes to can refuse an earlier leader. The context of the request ends when the leadership
// does. A request that was forwarded by somebody who knows of a later term, or that arrives where nobody
// leads, is refused with 421: so no request goes in circles.
//
// A client can set the headers itself. It gains nothing: they are replaced, or the request is refused.
func Forward(e *election.Election, next http.Handler, o ForwardOptions) (http.Handler, error) {
	if e == nil || next == nil {
		return nil, fmt.Errorf("electionhttp: %w: Forward needs an election and handler", backend.ErrInvalid)
	}
	o.Wait = cmp.Or(o.Wait, 10*time.Second)
	if o.URL == nil {
		o.URL = addressURL
	}
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = nil
		o.Transport = t
	}
	f := &forwarder{election: e, next: next, options: o, changed: make(chan struct{})}
	e.Watch(f.event) // until this process leaves the election
	return f, nil
}

type forwarder struct {
	election *election.Election
	next     http.Handler
	options  ForwardOptions

	mu      sync.Mutex
	changed chan struct{} // closed by the next event
}

// Errors of a request that was not answered. The client sees their texts.
var (
	errVacant    = errors.New("nobody leads")
	errNoAddress = errors.New("the leader has no address for requests: see Address in its options")
	errUnreached = errors.New("the leader could not be reached, or is no longer the leader; " +
		"it may have served the request")
)

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.Clone(r.Context())
	if r.Header.Get(forwardedHeader) != "" {
		f.receive(w, r)
		return
	}
	r.Header.Del(TermHeader)

	again, err := replayable(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "the request's body could not be read")
		return
	}
	term, err := f.try(w, r, 0)
	if errors.Is(err, errUnreached) && again != nil {
		again()
		if _, second := f.try(w, r, term); !errors.Is(second, errVacant) {
			err = second
		}
	}
	switch {
	case errors.Is(err, errVacant):
		fail(w, http.StatusServiceUnavailable, err.Error())
	case err != nil:
		fail(w, http.StatusBadGateway, err.Error())
	}
}

// try serves a request here, or sends it to the leader, whose term it returns. While nobody leads, or only a
// leader of the term after or of an earlier one is known, it waits. After an error nothing was answered.
func (f *forwarder) try(w http.ResponseWriter, r *http.Request, after uint64) (term uint64, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), f.options.Wait)
	defer cancel()
	own, known, ok := f.find(ctx, after)
	switch {
	case !ok:
		return 0, errVacant
	case own != nil:
		f.serve(w, r, own)
		return own.Term, nil
	}
	return known.Term, f.send(w, r, known)
}

// receive serves a request that another process has forwarded. That one may hear of a new leader before the
// leader itself, which then waits for its own news.
func (f *forwarder) receive(w http.ResponseWriter, r *http.Request) {
	known, err := strconv.ParseUint(r.Header.Get(TermHeader), 10, 64)
	ctx, cancel := context.WithTimeout(r.Context(), f.options.Wait)
	defer cancel()
	var l *election.Leadership // in the term that the other process knows of, or a later one
	if err == nil {
		f.await(ctx, func() bool {
			heard := f.election.Current().Term >= known // first: a leadership begins before it is told
			if l = f.election.Leadership(); l != nil && l.Term < known {
				l = nil
			}
			return l != nil || heard // else that leadership is over
		})
	}
	if l != nil {
		f.serve(w, r, l)
		return
	}
	w.Header().Set(forwardedHeader, "refused")
	fail(w, http.StatusMisdirectedRequest, "this process does not lead, or not in that term")
}

// serve lets the program serve a request while this process leads.
func (f *forwarder) serve(w http.ResponseWriter, r *http.Request, l *election.Leadership) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	defer stop()

	r = r.WithContext(ctx)
	r.Header.Del(forwardedHeader)
	r.Header.Set(TermHeader, term(l.Term))
	w.Header().Set(TermHeader, term(l.Term))
	f.next.ServeHTTP(w, r)
}

// find waits until a leader of a later term than after is known: this process, or another one.
func (f *forwarder) find(ctx context.Context, after uint64) (
	own *election.Leadership, known election.Event, ok bool,
) {
	ok = f.await(ctx, func() bool {
		if own = f.election.Leadership(); own != nil && own.Term >= after {
			return true
		}
		own, known = nil, f.election.Current()
		return known.Kind == election.Elected && !known.Leading && known.Term > after
	})
	return own, known, ok
}

// await waits until done returns true, again after each event. It returns false if ctx ends before.
func (f *forwarder) await(ctx context.Context, done func() bool) bool {
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if done() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// event tells those who wait that the election has changed.
func (f *forwarder) event(election.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
}

// send forwards a request. It gives up a leader that another one has followed: its host may be gone.
func (f *forwarder) send(w http.ResponseWriter, r *http.Request, to election.Event) (err error) {
	target, err := f.options.URL(to.Leader)
	if err != nil {
		return errNoAddress
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		f.find(ctx, to.Term)
		cancel()
	}()

	proxy := httputil.ReverseProxy{
		Transport: f.options.Transport,
		ErrorLog:  log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.SetXForwarded()
			p.Out.Host = p.In.Host
			p.Out.Header.Set(forwardedHeader, "1")
			p.Out.Header.Set(TermHeader, term(to.Term))
		},
		ModifyResponse: func(a *http.Response) error {
			if a.StatusCode == http.StatusMisdirectedRequest && a.Header.Get(forwardedHeader) != "" {
				return errUnreached
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { err = errUnreached },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return err
}

// replayable returns a function that makes a request ready to be sent again; nil: it must not be.
func replayable(r *http.Request) (again func(), err error) {
	idempotent := []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}
	if !slices.Contains(idempotent, r.Method) || r.ContentLength < 0 || r.ContentLength > maxReplay {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	again = func() { r.Body = io.NopCloser(bytes.NewReader(body)) }
	again()
	return again, nil
}

// addressURL is the default of [ForwardOptions].URL.
func addressURL(leader election.Candidate) (*url.URL, error) {
	address := leader.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errNoAddress
	}
	return u, nil
}
