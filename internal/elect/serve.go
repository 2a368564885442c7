package elect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
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
		Long: `Serve the elections NAME…, or all elections of the store, over HTTP: the page at /,
/elections, /records, /changes and /events, /leader/NAME, /healthz, /readyz and /metrics.

Elect serve only observes: it never campaigns, needs no right to write, and can be stopped
without any effect on the elections. /leader/NAME answers for another process: the candidate
--id, or the id of the configuration, which is that of a program beside it. The answer follows
the last observation of the store, so it is late by up to one reading or push. If that program
crashes, the answer stays 200 until the lease has expired. Only the process that leads knows
at every instant whether it does: elect run --http. Without an id the answer is 404.

By default elect serve listens on loopback only, because everyone who can connect sees
names, ids and addresses. Clients can change nothing, unless --token-file names a file with a
secret of at least 16 bytes. A client with that secret, as "Authorization: Bearer" or as
the password that a browser asks for, can nominate and depose. That needs rights to write.
On other addresses than loopback, a token requires TLS.

SIGTERM and SIGINT end elect serve with code 0. While the store is unreachable it runs on,
and /readyz is 503.`,
		Example: example(onStore + `
elect serve --listen 127.0.0.1:0 --for 2s
elect serve billing --id host-1 --listen 127.0.0.1:0 --for 2s`),
		RunE: func(c *cobra.Command, names []string) error {
			ctx, stop := untilSignal(c.Context(), o.limit)
			defer stop()
			return a.serve(ctx, names, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`address` to listen on; 0.0.0.0:8080 to be reached from other machines")
	f.StringVar(&o.id, "id", "", "`id` of the candidate that /leader answers for (default: id of the configuration)")
	f.StringVar(&o.token, "token-file", "", "`file` with the secret that allows nominate and depose (default: neither is allowed)")
	f.StringVar(&o.cert, "tls-cert", "", "PEM `file` with a certificate, to serve HTTPS")
	f.StringVar(&o.key, "tls-key", "", "PEM `file` with the key of the certificate")
	f.StringSliceVar(&o.hosts, "host", nil, "a host `name` that requests may have: on loopback in addition to localhost, elsewhere instead of any (default: any)")
	f.BoolVar(&o.details, "details", false, "also show metadata and error texts, which may name hosts and accounts of the store")
	f.DurationVar(&o.limit, "for", 0, "end after this time (default: run until SIGTERM or SIGINT)")
	return c
}

func (a *app) serve(ctx context.Context, names []string, o serveOptions) error {
	if (o.cert == "") != (o.key == "") {
		return errors.New("--tls-cert and --tls-key must be given together")
	}
	f := &frontend{hosts: o.hosts, csrf: http.NewCrossOriginProtection()}
	if o.token != "" {
		var err error
		if f.tokenHash, err = readToken(o.token); err != nil {
			return err
		}
	}
	log := slog.New(slog.NewTextHandler(a.diag, nil))
	m, configured, err := a.observe(ctx, names, log)
	if err != nil {
		return err
	}
	defer closeObserver(m)
	o.id = cmp.Or(o.id, configured)
	l, err := f.open(m, o, log)
	if err != nil {
		return err
	}
	defer f.page.Close()
	scheme := "http"
	if o.cert != "" {
		scheme = "https"
	} else if f.tokenHash != nil && !f.loopback {
		l.Close()
		return fmt.Errorf("--token-file without TLS on %v: clients would send the token in clear text; give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy with TLS", l.Addr())
	}
	fmt.Fprintf(a.diag, "elect: serves %s://%s/\n", scheme, l.Addr())
	if len(names) == 0 {
		f.listUnread.Store(true)
		go a.follow(ctx, m, func(_ []backend.Record, err error) { f.listUnread.Store(err != nil) })
	}
	return f.serveOn(ctx, l, o, log.Handler())
}

func readToken(file string) ([]byte, error) {
	secret, err := os.ReadFile(file)
	if err != nil {
		return nil, clean.FileError(err)
	}
	if secret = bytes.TrimSpace(secret); len(secret) < 16 {
		return nil, fmt.Errorf("the token in %s has %d bytes; it must have at least 16", file, len(secret))
	}
	sum := sha256.Sum256(secret)
	return sum[:], nil
}

// open makes the handlers, and listens.
func (f *frontend) open(m *election.Manager, o serveOptions, log *slog.Logger) (l net.Listener, err error) {
	options := electionhttp.Options{For: o.id, Details: o.details, Logger: log}
	if f.tokenHash != nil {
		options.Authorize = func(r *http.Request, _ electionhttp.Action) error {
			if !f.hasToken(r) {
				return errors.New("the token is missing or wrong")
			}
			return nil
		}
	}
	if f.page, err = electionhttp.New(m, options); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(electionprom.New(m, electionprom.Options{}))
	f.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	if l, err = net.Listen("tcp", o.listen); err != nil {
		f.page.Close()
		return nil, err
	}
	f.loopback = l.Addr().(*net.TCPAddr).IP.IsLoopback()
	return l, nil
}

// serveOn serves on l until ctx ends.
func (f *frontend) serveOn(ctx context.Context, l net.Listener, o serveOptions, log slog.Handler) error {
	server := f.server(log)
	failed := make(chan error, 1)
	go func() {
		if o.cert != "" {
			failed <- server.ServeTLS(l, o.cert, o.key)
		} else {
			failed <- server.Serve(l)
		}
	}()
	select {
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

// serveMember serves what a candidate's own manager knows, read-only, until stop is called. It
// returns the URL.
func serveMember(address string, m *election.Manager) (url string, stop func(), err error) {
	f := &frontend{csrf: http.NewCrossOriginProtection()}
	l, err := f.open(m, serveOptions{listen: address}, nil)
	if err != nil {
		return "", nil, err
	}
	server := f.server(slog.DiscardHandler)
	go server.Serve(l)
	stop = func() {
		f.page.Close()
		server.Close()
	}
	return "http://" + l.Addr().String() + "/", stop, nil
}

// server returns an HTTP server for f, with limits of time and size.
func (f *frontend) server(log slog.Handler) *http.Server {
	s := &http.Server{
		Handler: f, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log, slog.LevelWarn),
	}
	s.RegisterOnShutdown(f.page.Close) // streams do not end by themselves
	return s
}

// A frontend is the handler of elect serve. It checks hosts and tokens, and adds /metrics to the
// handler of package electionhttp.
type frontend struct {
	page       *electionhttp.Handler
	metrics    http.Handler
	csrf       *http.CrossOriginProtection
	tokenHash  []byte // nil: no client may change anything
	hosts      []string
	loopback   bool
	listUnread atomic.Bool // the list of elections is needed and could not be read
}

func (f *frontend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !f.hostAllowed(r):
		// A hostile page can make its own name resolve to 127.0.0.1 and read the answers.
		http.Error(w, "this host name is not allowed; see --host", http.StatusMisdirectedRequest)
	case r.URL.Path == "/metrics":
		f.metrics.ServeHTTP(w, r)
	case r.URL.Path == "/readyz" && f.listUnread.Load():
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
	case r.URL.Path == "/actions" && f.tokenHash != nil && !f.hasToken(r) && f.csrf.Check(r) == nil:
		w.Header().Set("WWW-Authenticate", `Basic realm="elect", charset="UTF-8"`)
		http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
	default:
		f.page.ServeHTTP(w, r)
	}
}

func (f *frontend) hostAllowed(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if slices.Contains(f.hosts, host) {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	if f.loopback {
		return host == "localhost" || ip.IsLoopback()
	}
	return len(f.hosts) == 0
}

// hasToken reports whether a request has the token. It compares hashes, which have the same
// length, so its duration tells nothing about the token.
func (f *frontend) hasToken(r *http.Request) bool {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, secret, ok = r.BasicAuth()
	}
	sum := sha256.Sum256([]byte(secret))
	return ok && subtle.ConstantTimeCompare(sum[:], f.tokenHash) == 1
}
