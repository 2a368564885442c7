package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/electionprom"
)

// serveOptions are the flags of "elect serve".
type serveOptions struct {
	listen, id, token, cert, key string
	hosts                        []string
	details                      bool
	limit                        time.Duration
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use: "serve [NAME…]", Short: "Show over HTTP who leads: a page, JSON, events, checks and metrics",
		Long: `Serve the elections NAME…, or all of the store as they appear, over HTTP: the page at /,
/elections, /members, /changes and /events, /leader/NAME, /healthz, /readyz and /metrics.

It only watches: it never campaigns, needs no right to write, and who leads does not
depend on it. So /leader/NAME does not answer for this process but for the candidate
--id, or id of the configuration: that of a program beside it, in any language. It goes
by what the store has said last, and so is up to a reading or a push late; if that
program crashes, it says 200 until the lease has run out. Only the leader's own process
can say it to the instant: elect run --http. Without an id it answers 404.

It listens on this machine alone, unless --listen says otherwise: names, ids and
addresses are shown to whoever reaches it. Nothing can be changed, unless --token-file
names a file with a secret of 16 bytes or more: then who has it, as "Authorization:
Bearer" or as the password that a browser asks for, can nominate and depose, which
needs rights to write. A token goes to other machines through TLS alone.

SIGTERM and SIGINT end it, with code 0. A store that is away does not: /readyz is 503.`,
		Example: example(onStore + `
elect serve --listen 127.0.0.1:0 --for 2s
elect serve billing --id host-1 --listen 127.0.0.1:0 --for 2s`),
		RunE: func(c *cobra.Command, names []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			context.AfterFunc(ctx, stop) // a second signal ends elect at once
			if o.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, o.limit)
				defer cancel()
			}
			return a.serve(ctx, names, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`address` to listen on; 0.0.0.0:8080 for other machines")
	f.StringVar(&o.id, "id", "", "the `candidate` that /leader answers for (default: id of the configuration)")
	f.StringVar(&o.token, "token-file", "", "`file` with the secret that allows nominate and depose (default: nobody is allowed)")
	f.StringVar(&o.cert, "tls-cert", "", "PEM `file` with a certificate: serve HTTPS")
	f.StringVar(&o.key, "tls-key", "", "PEM `file` with its key")
	f.StringSliceVar(&o.hosts, "host", nil, "a `name` that requests may ask for; on loopback besides localhost, elsewhere only this (default: any)")
	f.BoolVar(&o.details, "details", false, "show metadata and the texts of errors too, which name hosts and accounts of the store")
	f.DurationVar(&o.limit, "for", 0, "end after so long (default: when told to)")
	return c
}

func (a *app) serve(ctx context.Context, names []string, o serveOptions) error {
	switch {
	case (o.cert == "") != (o.key == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case o.limit < 0:
		return fmt.Errorf("--for is %v; it must not be negative", o.limit)
	}
	f := &front{names: o.hosts, csrf: http.NewCrossOriginProtection()}
	if o.token != "" {
		secret, err := os.ReadFile(o.token)
		if err != nil {
			return backend.FileError(err)
		}
		if secret = bytes.TrimSpace(secret); len(secret) < 16 {
			return fmt.Errorf("the token in %s has %d bytes; it must have 16 at least", o.token, len(secret))
		}
		sum := sha256.Sum256(secret)
		f.token = sum[:]
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	log := slog.New(slog.NewTextHandler(a.diag, nil))
	e := &s.config.Election
	if o.id == "" {
		o.id = e.ID
	}
	e.ID, e.Observer, e.Logger = "", true, log // two processes never share an id
	m, err := s.config.Open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		m.Close(end)
	}()
	for _, name := range names {
		if _, err := m.Join(name); err != nil {
			return err
		}
	}
	if err := f.open(m, o, log); err != nil {
		return err
	}
	defer f.page.Close()

	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	f.loopback = l.Addr().(*net.TCPAddr).IP.IsLoopback()
	scheme := "http"
	if o.cert != "" {
		scheme = "https"
	} else if f.token != nil && !f.loopback {
		l.Close()
		return fmt.Errorf("--token-file on %v: the token would travel in clear; give --tls-cert and --tls-key, or listen on 127.0.0.1 behind what has TLS", l.Addr())
	}
	fmt.Fprintf(a.diag, "elect: serves %s://%s/\n", scheme, l.Addr())
	return a.serveOn(ctx, l, f, m, s, len(names) == 0, o)
}

// open makes what f stands before.
func (f *front) open(m *election.Manager, o serveOptions, log *slog.Logger) (err error) {
	options := electionhttp.Options{For: o.id, Details: o.details, Logger: log}
	if f.token != nil {
		options.Authorize = func(r *http.Request, _ electionhttp.Action) error {
			if !f.trusts(r) {
				return errors.New("no token, or not ours")
			}
			return nil
		}
	}
	if f.page, err = electionhttp.New(m, &options); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(electionprom.New(m, nil))
	f.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return nil
}

// serveOn serves until ctx ends, and joins what appears in the store.
func (a *app) serveOn(ctx context.Context, l net.Listener, f *front, m *election.Manager, s *store, all bool, o serveOptions) error {
	server := f.server(slog.NewTextHandler(a.diag, nil))
	failed := make(chan error, 1)
	go func() {
		if o.cert != "" {
			failed <- server.ServeTLS(l, o.cert, o.key)
		} else {
			failed <- server.Serve(l)
		}
	}()
	look := time.NewTimer(0)
	defer look.Stop()
	f.blind.Store(all)
	if !all {
		look.Stop()
	}
	said := ""
	for {
		select {
		case <-look.C:
			records, err := s.records(ctx)
			if err == nil {
				s.join(ctx, m, records)
			}
			f.blind.Store(err != nil)
			look.Reset(max(10*time.Second, s.TTL))
			text := ""
			if err != nil && ctx.Err() == nil {
				look.Reset(time.Second)
				if text = err.Error(); text != said {
					fmt.Fprintln(a.diag, "elect: the list of elections:", backend.Clean(text, 4096, false))
				}
			}
			said = text
		case err := <-failed:
			return err
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if server.Shutdown(end) != nil {
				server.Close()
			}
			return nil
		}
	}
}

// serveBeside serves what a candidate knows, to be looked at, until stop is called. It
// returns where.
func serveBeside(address string, m *election.Manager) (where string, stop func(), err error) {
	f := &front{csrf: http.NewCrossOriginProtection()}
	if err := f.open(m, serveOptions{}, nil); err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		f.page.Close()
		return "", nil, err
	}
	f.loopback = l.Addr().(*net.TCPAddr).IP.IsLoopback()
	server := f.server(slog.DiscardHandler)
	go server.Serve(l)
	return "http://" + l.Addr().String() + "/", func() {
		f.page.Close()
		server.Close()
	}, nil
}

// server is one with limits of time and size.
func (f *front) server(log slog.Handler) *http.Server {
	s := &http.Server{
		Handler: f, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log, slog.LevelWarn),
	}
	s.RegisterOnShutdown(f.page.Close) // streams do not end by themselves
	return s
}

// A front is what a request meets before the page: what is not the page's, and who
// may ask.
type front struct {
	page     *electionhttp.Handler
	metrics  http.Handler
	csrf     *http.CrossOriginProtection
	token    []byte // its hash; nil: nobody is allowed anything
	names    []string
	loopback bool
	blind    atomic.Bool // which elections there are could not be read yet
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !f.asked(r):
		// A hostile page can make a name of its own resolve to 127.0.0.1, and read.
		http.Error(w, "this name is not one of ours; see --host", http.StatusMisdirectedRequest)
	case r.URL.Path == "/metrics":
		f.metrics.ServeHTTP(w, r)
	case r.URL.Path == "/readyz" && f.blind.Load():
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
	case r.URL.Path == "/actions" && f.token != nil && !f.trusts(r) && f.csrf.Check(r) == nil:
		w.Header().Set("WWW-Authenticate", `Basic realm="elect", charset="UTF-8"`)
		http.Error(w, "the token is missing, or not ours", http.StatusUnauthorized)
	default:
		f.page.ServeHTTP(w, r)
	}
}

// asked reports whether the request is for a name of ours.
func (f *front) asked(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if slices.Contains(f.names, host) {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	if f.loopback {
		return host == "localhost" || ip.IsLoopback()
	}
	return len(f.names) == 0
}

// trusts reports whether a request has the token. Hashes are compared: they are of
// one length, and how long it takes says nothing about the token.
func (f *front) trusts(r *http.Request) bool {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, secret, ok = r.BasicAuth()
	}
	sum := sha256.Sum256([]byte(secret))
	return ok && subtle.ConstantTimeCompare(sum[:], f.token) == 1
}

// join has m join the elections of records that it has not joined yet, and leave others:
// they are forgotten.
func (s *store) join(ctx context.Context, m *election.Manager, records []backend.Record) {
	there := map[string]bool{}
	for _, r := range records {
		if there[r.Election] = true; m.Election(r.Election) == nil {
			m.Join(r.Election) // a name that cannot be joined is not ours
		}
	}
	for _, e := range m.Elections() {
		if !there[e.Name()] {
			e.Leave(ctx)
		}
	}
}
