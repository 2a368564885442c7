package elect

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/electionprom"
)

// serveOptions are the flags of "elect serve".
type serveOptions struct {
	listen  string
	hosts   []string
	details bool
	limit   time.Duration
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use: "serve [NAME…]", Short: "Show over HTTP who leads: a page, JSON, events, checks and metrics",
		Long: `Serve the elections NAME…, or all elections of the store, over HTTP: the page at /,
/elections, /changes and /events, /healthz, /readyz and /metrics. Clients can change nothing.

/leader/NAME is 404: only the process that leads knows at every instant whether it does. Ask it by
elect run --http. By default elect serve listens on loopback only, because everyone who can
connect sees names, ids and addresses.`,
		Example: example(onStore + `
elect serve --listen 127.0.0.1:0 --for 2s
elect serve billing --listen 127.0.0.1:0 --for 2s`),
		RunE: func(c *cobra.Command, names []string) error {
			log := slog.New(slog.NewTextHandler(a.diag, nil))
			serve := func(ctx context.Context, m *election.Manager) error {
				return a.serve(ctx, m, o, log)
			}
			return a.observing(c.Context(), o.limit, names, log, serve)
		},
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`address` to listen on; "+
		"0.0.0.0:8080 to be reached from other machines")
	f.StringSliceVar(&o.hosts, "host", nil, "a host `name` that requests may have: on loopback in addition "+
		"to localhost, elsewhere instead of any (default: any)")
	f.BoolVar(&o.details, "details", false, "also show metadata and error texts, "+
		"which may name hosts and accounts of the store")
	f.DurationVar(&o.limit, "for", 0, "end after this time (default: run until SIGTERM or SIGINT)")
	return c
}

// serve serves the elections that m has joined, or else all of the store, until ctx ends.
func (a *app) serve(ctx context.Context, m *election.Manager, o serveOptions, log *slog.Logger) error {
	f, err := newFrontend(m, o, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.diag, "elect: serves %s\n", f.url())
	if len(m.Elections()) == 0 {
		f.listUnread.Store(true)
		go a.follow(ctx, m, func(err error) { f.listUnread.Store(err != nil) })
	}

	failed := make(chan error, 1)
	go func() { failed <- f.server.Serve(f.listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	f.page.Close() // streams do not end by themselves
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	f.server.Shutdown(patience)
	return nil
}

// A frontend is the handler of elect serve: it checks the host, and adds /metrics to electionhttp.
type frontend struct {
	page       *electionhttp.Handler
	metrics    http.Handler
	listener   net.Listener
	server     *http.Server
	hosts      []string
	loopback   bool
	listUnread atomic.Bool // the list of elections is needed and could not be read
}

// newFrontend makes the handlers and a server with limits of time and size, and listens.
func newFrontend(m *election.Manager, o serveOptions, log *slog.Logger) (*frontend, error) {
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return nil, err
	}
	page, _ := electionhttp.New(m, electionhttp.Options{Details: o.details}) // it only refuses nil
	registry := prometheus.NewRegistry()
	registry.MustRegister(electionprom.New(m, electionprom.Options{}))
	f := &frontend{
		page: page, metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}),
		listener: l, hosts: o.hosts, loopback: l.Addr().(*net.TCPAddr).IP.IsLoopback(),
	}
	f.server = &http.Server{
		Handler: f, MaxHeaderBytes: 16 << 10, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return f, nil
}

func (f *frontend) url() string { return "http://" + f.listener.Addr().String() + "/" }

func (f *frontend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !f.hostAllowed(r):
		// A hostile page can make its own name resolve to 127.0.0.1 and read the answers.
		http.Error(w, "this host name is not allowed; see --host", http.StatusMisdirectedRequest)
	case r.URL.Path == "/metrics":
		f.metrics.ServeHTTP(w, r)
	case r.URL.Path == "/readyz" && f.listUnread.Load():
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
	default:
		f.page.ServeHTTP(w, r)
	}
}

func (f *frontend) hostAllowed(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "" || slices.Contains(f.hosts, host) { // a page has one, HAProxy's checks have none
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	if f.loopback {
		return host == "localhost" || ip.IsLoopback()
	}
	return len(f.hosts) == 0
}
