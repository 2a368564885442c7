package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/local"
)

// canRun says that this system has what "elect run" needs.
const canRun = true

// A runner runs a command whenever this process leads.
type runner struct {
	runOptions
	limits
	every    time.Duration // how often the guard is told until when
	ttl      time.Duration
	name     string
	command  []string
	environ  []string
	lock     func(election string) (*os.File, error) // of the file backend; else nil
	election *election.Election
	socket   string

	results chan result         // of commands that have ended by themselves
	stop    chan syscall.Signal // ends the command, while the lease is renewed

	mu      sync.Mutex
	child   *child
	paused  bool
	halting bool // the command is to end and is not started again: elect ends

	unreleased bool // the lease was left to run out

	guard atomic.Int64 // the guard's process, which is not to be reaped here
}

// A result is how a command ended by itself.
type result struct {
	code int
	err  error // it could not be started
}

// run is the command "elect run". It returns the exit code.
func run(ctx context.Context, c *config.Config, name string, command []string, o runOptions) (int, error) {
	if err := backend.CheckName(name); err != nil {
		return exitElect, err
	}
	if _, err := exec.LookPath(command[0]); err != nil { // now, and not when it is needed
		return codeOf(err), err
	}
	if err := checkProc(); err != nil {
		return exitElect, err
	}
	store, err := c.OpenBackend(ctx)
	if err != nil {
		return exitElect, err
	}
	full, err := c.Election.Complete(store.Guarantees())
	if err != nil {
		store.Close()
		return exitElect, c.Validate(ctx) // in the words of the file
	}
	r := &runner{runOptions: o, name: name, command: command, results: make(chan result, 1), stop: make(chan syscall.Signal)}
	if r.limits, err = o.limits(full); err != nil {
		store.Close()
		return exitElect, err
	}
	r.ttl = full.TTL
	r.every = min(max(full.TTL/40, 10*time.Millisecond), 250*time.Millisecond)
	if b, ok := store.(interface {
		Lock(string) (*os.File, error)
	}); ok {
		r.lock = b.Lock
	}
	if err := adoptOrphans(); err != nil {
		store.Close()
		return exitElect, err
	}
	// The core waits for the command's end for as long as this; the guard is faster.
	full.StepDownTimeout = max(full.StepDownTimeout, full.TTL)
	m, err := election.New(store, &full)
	if err != nil {
		store.Close()
		return exitElect, err
	}
	end := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*full.TTL) // its own output may hang
		defer cancel()
		if r.unreleased { // Run has waited for that as long as it can matter
			cancel()
		}
		return m.Close(ctx)
	}
	if r.election, err = m.Join(name); err != nil {
		return exitElect, errors.Join(err, end())
	}
	r.id = m.ID()
	if err := m.Check(ctx); errors.Is(err, backend.ErrDenied) {
		return exitElect, errors.Join(err, end())
	} else if err != nil {
		r.say("the store does not answer yet: %v", err)
	}
	server, err := local.Serve(o.socket, r)
	if err != nil && o.socket != "" {
		return exitElect, errors.Join(err, end())
	} else if err != nil {
		r.say("no socket for resign, pause and resume: %v", err)
	} else {
		r.socket = server.Path
		defer server.Close()
	}
	if o.http != "" {
		where, stop, err := serveBeside(o.http, m)
		if err != nil {
			return exitElect, errors.Join(err, end())
		}
		defer stop()
		r.say("serves %s", where)
	}
	r.environ = append(os.Environ(), "ELECTION_NAME="+name, "ELECTION_ID="+m.ID(), "ELECTION_SOCKET="+r.socket)
	code, err := r.campaign(ctx)
	if closed := end(); closed != nil && !r.unreleased {
		r.say("%v", closed)
	}
	return code, err
}

// campaign campaigns until the command has ended for good, or elect is asked to end.
func (r *runner) campaign(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	born := make(chan os.Signal, 1)
	signal.Notify(born, syscall.SIGCHLD)
	go reapOrphans(ctx, born, func() int { return int(r.guard.Load()) })

	r.election.Watch(r.tell)
	over := make(chan error, 1)
	go func() { over <- r.election.Run(ctx, r.lead) }()
	// finish ends the leadership, or at a second signal leaves it to run out.
	finish := func(code int, err error) (int, error) {
		cancel()
		for {
			select {
			case closed := <-over:
				if r.unreleased = errors.Is(closed, election.ErrNotReleased); r.unreleased {
					r.say("%v", closed)
					closed = nil
				}
				return code, errors.Join(err, closed)
			case s := <-signals:
				if s := s.(syscall.Signal); ends(s) {
					r.say("%v again: the lease is left to run out", s)
					r.unreleased = true
					return code, err
				}
			}
		}
	}
	for {
		select {
		case err := <-over:
			return exitElect, err // the store will never accept us
		case res := <-r.results:
			switch {
			case res.err != nil:
				return finish(res.code, res.err)
			case r.halt(), r.restart == "no", r.restart == "on-failure" && res.code == 0:
				return finish(res.code, nil)
			}
		case s := <-signals:
			switch s := s.(syscall.Signal); {
			case ends(s):
				r.mu.Lock()
				again := r.halting
				r.halting = true
				running := r.child != nil
				if running && again {
					r.say("%v again: killing the command", s)
					r.child.kill()
				}
				r.mu.Unlock()
				if !running {
					return finish(0, nil)
				}
				if !again {
					r.say("%v: ending the command, then the leadership; a second signal kills it", s)
					go r.end(s)
				}
			default:
				r.mu.Lock()
				running := r.child != nil
				if running {
					r.child.signal(s)
				} else if s == syscall.SIGHUP {
					r.halting = true
				}
				r.mu.Unlock()
				if !running && s == syscall.SIGHUP { // its terminal is gone, and it must not lead without
					return finish(0, nil)
				}
			}
		}
	}
}

// ends reports whether a signal asks elect to end.
func ends(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGQUIT
}

func (r *runner) halt() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.halting
}

// end asks the command that runs to end, and waits until it has. The lease is
// renewed meanwhile.
func (r *runner) end(s syscall.Signal) {
	r.mu.Lock()
	c := r.child
	r.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case r.stop <- s:
	case <-c.done:
	}
	<-c.done
}

// lead is one leadership.
func (r *runner) lead(ctx context.Context, lead *election.Leadership) error {
	var lock *os.File
	if r.lock != nil {
		var err error
		if lock, err = r.lock(r.name); err != nil {
			return err
		}
	}
	environ := append(r.environ[:len(r.environ):len(r.environ)], fmt.Sprintf("ELECTION_TERM=%d", lead.Term))
	r.mu.Lock()
	var c *child
	var err error
	if !r.halting {
		c, err = startChild(lead, r.limits, r.command, environ, lock)
		if r.child = c; c != nil {
			r.guard.Store(int64(c.guard.Process.Pid))
		}
	}
	r.mu.Unlock()
	if lock != nil {
		lock.Close() // the guard has it
	}
	if err != nil {
		r.results <- result{exitElect, err}
		<-ctx.Done()
		return nil
	}
	if c == nil {
		return nil
	}
	expiring := false
	c.tend(ctx, lead, r.every, r.stop, func(rep report) {
		expiring = expiring || rep.what == "expiring"
		switch rep.what {
		case "started":
			r.say("leads %q in term %d; process %d runs", r.name, lead.Term, rep.n)
		case "expiring":
			r.say("the lease is running out: ending the command")
		case "denied":
			r.say("process %d is another user's, and this one may not kill it (CAP_KILL): IT RUNS ON, also when somebody else leads", rep.n)
		case "late":
			r.say("elected with too little time left to start the command")
		}
	})
	r.mu.Lock()
	r.child = nil
	halting := r.halting
	r.mu.Unlock()
	if expiring && !halting {
		outlive(ctx, lead)
	}
	switch {
	case c.err != nil:
		r.results <- result{c.code, c.err}
	case halting || c.ended && !c.asked && ctx.Err() == nil:
		if !halting {
			r.say("the command has ended by itself, code %d", c.code)
		}
		r.results <- result{code: c.code}
	default:
		r.say("the command has ended, code %d; it starts again when this process leads again", c.code)
	}
	return nil
}

// outlive waits until a lease that could not be renewed is lost, so that it is recorded as
// that and not as given up; or until it is renewed after all.
func outlive(ctx context.Context, lead *election.Leadership) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for before := lead.Remaining(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		left := lead.Remaining()
		if left > before {
			return
		}
		before = left
	}
}

// tell says what happens in the election.
func (r *runner) tell(ev election.Event) {
	switch {
	case ev.Kind == election.Elected && ev.Leading: // it is said when the command runs
	case ev.Kind == election.Elected:
		r.say("%q leads %q in term %d", ev.Leader.ID, r.name, ev.Term)
	case ev.Reason == election.ReasonCurrent:
	case ev.Kind == election.Vacant && ev.Previous.ID == r.id:
		r.say("does not lead %q any more: %s", r.name, ev.Why())
	case ev.Kind == election.Vacant:
		r.say("nobody leads %q: %s", r.name, ev.Why())
	case ev.Kind == election.Unknown:
		r.say("cannot tell who leads %q: %s", r.name, ev.Why())
	default:
		r.say("notice: %s", ev.Why())
	}
}

func (r *runner) say(format string, args ...any) {
	if !r.quiet {
		fmt.Fprintln(os.Stderr, "elect:", fmt.Sprintf(format, args...))
	}
}

// States and Do are for the socket. Unlike a program that only embeds the library, this
// one has its command ended before it steps down, while the lease is renewed.
func (r *runner) States() []local.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := local.State{Election: r.name, ID: r.id, PID: os.Getpid(), Paused: r.paused, StopTimeout: r.limits.stop.Seconds(), TTL: r.ttl.Seconds()}
	if lead := r.election.Leadership(); lead != nil {
		s.Leading, s.Term = true, lead.Term
	}
	if r.child != nil {
		s.Command = int(r.child.pid.Load())
	}
	return []local.State{s}
}

func (r *runner) Do(ctx context.Context, _, what string) error {
	r.say("told to %s", what)
	if what != "resign" {
		r.mu.Lock()
		r.paused = what == "pause"
		r.mu.Unlock()
	}
	if what == "resume" {
		r.election.Resume()
		return nil
	}
	r.end(syscall.SIGTERM) // first, while the lease is renewed: it has all its time
	if what == "pause" {
		r.election.Pause()
	}
	return r.election.Resign(ctx)
}
