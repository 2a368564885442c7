package elect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionguard"
)

// A runner runs a command whenever this process leads.
type runner struct {
	runOptions
	extendEvery time.Duration // how often elect tells the guard the deadline of the lease
	ttl         time.Duration
	name        string
	command     []string
	environ     []string
	lock        func(election string) (*os.File, error) // of the file backend; nil for others
	election    *election.Election                      // nil: slots
	stopLabel   func(context.Context) error             // nil: there is no label

	terminal bool // this process has one

	result chan result // makes elect end; see end

	asked   syscall.Signal // the last one that asked elect to end, and when
	askedAt time.Time

	mu       sync.Mutex
	child    *child
	stopping bool // elect is asked to end: the command is not started again
	started  bool // the command was started once

	successor int // the process that releases the lease if elect dies (electionguard); 0: none
}

// A result is how elect ends.
type result struct {
	code int
	err  error // why the command could not be started, or this process cannot lead
}

// run is the command "elect run". It returns the exit code.
func run(ctx context.Context, c *config.Config, name string, command []string, o runOptions) (int, error) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // who reads standard error may end before elect
	if err := backend.CheckName(name); err != nil {
		return exitElect, err
	}
	if _, err := exec.LookPath(command[0]); err != nil { // report it now, not when this process is elected
		return startErrorCode(err), err
	}
	if err := checkProc(); err != nil {
		return exitElect, err
	}
	spareThreads()
	s, err := openStore(ctx, c)
	if err != nil {
		return exitElect, err
	}
	r, m, err := newRunner(s, name, command, o)
	if err != nil {
		s.Close()
		return exitElect, err
	}
	if err := r.prepare(ctx, m); err != nil {
		return exitElect, errors.Join(err, closeWithin(m, 2*r.ttl))
	}
	defer r.unlabel()
	return r.campaign(m)
}

// prepare joins the election, serves, and keeps the label, if the store does not deny to lead.
func (r *runner) prepare(ctx context.Context, m *election.Manager) (err error) {
	r.id = m.ID()
	r.environ = append(os.Environ(), "ELECTION_ID="+r.id)
	if r.slots == 0 {
		if r.election, err = m.Join(r.name); err != nil {
			return err
		}
	}
	if err := m.Check(ctx); errors.Is(err, backend.ErrDenied) {
		return err
	} else if err != nil {
		r.say("the store does not answer yet: %v", err)
	}
	if r.http != "" {
		f, err := newFrontend(m, serveOptions{listen: r.http}, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		go f.server.Serve(f.listener) // until elect ends
		r.say("serves %s", f.url())
	}
	if r.podLabel != "" {
		r.stopLabel, err = r.label(r.election, r.podLabel)
	}
	return err
}

// unlabel removes the label of this pod when elect ends.
func (r *runner) unlabel() {
	if r.stopLabel == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.ttl)
	defer cancel()
	if err := r.stopLabel(ctx); err != nil {
		r.say("this pod may still have the label %s: %v", r.podLabel, err)
	}
}

// newRunner checks the options and starts a manager on the store.
func newRunner(s *store, name string, command []string, o runOptions) (*runner, *election.Manager, error) {
	r := &runner{runOptions: o, name: name, command: command, result: make(chan result, 1)}
	if tty, err := os.Open("/dev/tty"); err == nil {
		tty.Close()
		r.terminal = true
	}
	if o.noWait { // in this time a store says who leads, and grants the lease if nobody does
		r.wait = 3*s.CallTimeout + s.RenewEvery
	}
	var err error
	if r.limits, err = o.complete(s.Options); err != nil {
		return nil, nil, err
	}
	r.ttl = s.TTL
	r.extendEvery = min(max(s.TTL/40, 10*time.Millisecond), 250*time.Millisecond)
	if r.lock, err = lockOf(s.Backend); err != nil {
		return nil, nil, err
	}
	if err := adoptOrphans(); err != nil {
		return nil, nil, err
	}
	options := s.Options
	// The manager waits this long for the lead function. The guard ends the command sooner.
	options.StepDownTimeout = max(s.StepDownTimeout, s.TTL)
	options.Logger = slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var guard *electionguard.Guard
	if backend.CanAdopt(s.Backend) == nil {
		if guard, err = s.config.StartGuard(); err != nil {
			r.say("if elect is killed, there is no leader for a TTL: %v", err)
		} else {
			options.Guard = guard
		}
		r.successor = guard.PID()
	}
	m, err := election.New(s.Backend, options)
	if err != nil {
		guard.Close()
	}
	return r, m, err
}

// lockOf returns how to get the lock of the kernel by which this process leads; nil: it leads by none. The
// command keeps it, so that nobody leads before it has ended.
func lockOf(b backend.Backend) (lock func(election string) (*os.File, error), err error) {
	stores := []backend.Backend{b}
	if m, ok := b.(*migration.Backend); ok {
		stores = m.Needed()
	}
	for _, store := range stores {
		file, ok := store.(interface {
			Lock(election string) (*os.File, error)
		})
		switch {
		case ok && lock != nil:
			return nil, fmt.Errorf("%w: both stores lead by locks of files, and a command can have one",
				backend.ErrInvalid)
		case ok:
			lock = file.Lock
		}
	}
	return lock, nil
}

func (r *runner) watch(ev election.Event) {
	switch {
	case r.slots > 0 && ev.Election == r.name: // by which the processes find each other
	case ev.Kind == election.Unknown && ev.Reason == election.ReasonUnreachable: // printed by Write
	case ev.Reason == election.ReasonInvalid:
		r.end(exitElect, ev.Err)
	case ev.Kind == election.Elected && ev.Leading: // printed when the command has started
	case ev.Kind == election.Elected:
		r.say("%q leads %q in term %d", ev.Leader.ID, ev.Election, ev.Term)
		if r.noWait && r.givesUp() {
			r.end(exitTimeout, nil)
		}
	case ev.Reason == election.ReasonCurrent && (ev.Kind != election.Vacant || ev.Err == nil):
		// No news, unless it has moved.
	case ev.Kind == election.Vacant && ev.Previous.ID == r.id:
		r.say("no longer leads %q: %s", ev.Election, ev.Why())
	case ev.Kind == election.Vacant && r.slots > 0 && ev.Err == nil: // one event may empty all slots
	case ev.Kind == election.Vacant:
		r.say("nobody leads %q: %s", ev.Election, ev.Why())
	case ev.Kind == election.Unknown:
		r.say("cannot tell who leads %q: %s", ev.Election, ev.Why())
	default:
		r.say("notice: %s", ev.Why())
	}
}

// end makes elect end with a code, unless it ends already.
func (r *runner) end(code int, err error) {
	select {
	case r.result <- result{code, err}:
	default:
	}
}

// storeLine matches the lines of a manager's log about a time in which the store is away, or nobody can lead.
var storeLine = regexp.MustCompile(`level=WARN .* (since|until|after)=`)

// Write says a line of the manager's log about the store. What happens to the election, watch says.
func (r *runner) Write(line []byte) (int, error) {
	if storeLine.Match(line) {
		r.say("%s", bytes.TrimSpace(line))
	}
	return len(line), nil
}

// say writes a line to standard error. If nobody reads that, elect works on, and ends when it is asked to.
func (r *runner) say(format string, args ...any) {
	if r.quiet {
		return
	}
	said := make(chan struct{})
	go func() {
		fmt.Fprintf(os.Stderr, "elect: "+format+"\n", args...)
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(100 * time.Millisecond):
	}
}
