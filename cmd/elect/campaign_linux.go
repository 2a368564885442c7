package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-election/go-election/election"
)

// campaign campaigns until the command has ended and is not to be started again, or until
// elect is asked to end. It returns the exit code.
func (r *runner) campaign(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	childEnded := make(chan os.Signal, 1)
	signal.Notify(childEnded, syscall.SIGCHLD)
	go reapOrphans(ctx, childEnded, func() int { return int(r.guard.Load()) })

	r.election.Watch(r.printEvent)
	ended := make(chan error, 1)
	go func() { ended <- r.runAgain(ctx) }()
	finish := func(code int, err error) (int, error) {
		cancel()
		return r.awaitRelease(code, err, ended, signals)
	}
	for {
		select {
		case err := <-ended:
			return exitElect, err // the store will never accept this candidacy
		case res := <-r.results:
			switch {
			case res.err != nil:
				return finish(res.code, res.err)
			case r.isStopping(), r.restart == "no", r.restart == "on-failure" && res.code == 0:
				return finish(res.code, nil)
			}
		case s := <-signals:
			if r.handleSignal(s.(syscall.Signal)) {
				return finish(0, nil)
			}
		}
	}
}

// runAgain campaigns again after each end of the command, until ctx ends or the store will
// never accept this candidacy.
func (r *runner) runAgain(ctx context.Context) error {
	err := r.election.Run(ctx, r.lead)
	for ctx.Err() == nil && (err == nil || errors.Is(err, election.ErrNotReleased)) {
		if next := r.election.Run(ctx, r.lead); next != nil || ctx.Err() == nil {
			err = next
		}
	}
	return err
}

// awaitRelease waits until Run has released the lease and returned. A signal ends the wait;
// then the lease expires.
func (r *runner) awaitRelease(code int, err error, ended <-chan error, signals <-chan os.Signal) (int, error) {
	for {
		select {
		case closed := <-ended:
			if r.unreleased = errors.Is(closed, election.ErrNotReleased); r.unreleased {
				r.say("%v", closed)
				closed = nil
			}
			return code, errors.Join(err, closed)
		case s := <-signals:
			if s := s.(syscall.Signal); isTermination(s) {
				r.say("%v again: not waiting for the release; the lease will expire", s)
				r.unreleased = true
				return code, err
			}
		}
	}
}

// handleSignal passes a signal on to the command. The first signal that asks elect to end makes
// the command end, the second kills it. handleSignal reports whether elect should end at once,
// since no command runs.
func (r *runner) handleSignal(s syscall.Signal) (end bool) {
	if !isTermination(s) {
		return r.passOn(s)
	}
	r.mu.Lock()
	again := r.stopping
	r.stopping = true
	running := r.child != nil
	if running && again {
		r.say("%v again: killing the command", s)
		r.child.kill()
	}
	r.mu.Unlock()
	if running && !again {
		r.say("%v: ending the command, then the leadership; a second signal kills the command", s)
		go r.endCommand(s)
	}
	return !running
}

// passOn sends a signal to the running command. If no command runs, SIGHUP makes elect end: its
// terminal has closed, and elect must not start a command without the terminal.
func (r *runner) passOn(s syscall.Signal) (end bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.child != nil {
		r.child.signal(s)
	} else if s == syscall.SIGHUP {
		r.stopping = true
		return true
	}
	return false
}

func isTermination(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGQUIT
}

func (r *runner) isStopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping
}

// endCommand sends a signal to the running command and waits until it has ended. The lease is
// renewed meanwhile.
func (r *runner) endCommand(s syscall.Signal) {
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

// lead is the lead function: it runs the command for one leadership.
func (r *runner) lead(ctx context.Context, lead *election.Leadership) error {
	var lock *os.File
	if r.lock != nil {
		var err error
		if lock, err = r.lock(r.name); err != nil {
			r.say("the lease cannot be handed to the command: %v", err)
			return nil
		}
	}
	c, err := r.startCommand(lead, lock)
	if err != nil {
		r.results <- result{exitElect, err}
		<-ctx.Done()
		return nil
	}
	if c == nil {
		return nil
	}
	expiring := false
	c.supervise(ctx, lead, r.extendEvery, r.stop, func(rep report) {
		expiring = expiring || rep.what == "expiring"
		r.printReport(rep, lead.Term)
	})
	r.mu.Lock()
	r.child = nil
	stopping := r.stopping
	r.mu.Unlock()
	if expiring && !stopping {
		awaitExpiry(ctx, lead)
	}
	switch {
	case c.err != nil:
		r.results <- result{c.code, c.err}
	case stopping || c.ended && !c.stopRequested && ctx.Err() == nil:
		if !stopping {
			r.say("the command has ended by itself, code %d", c.code)
		}
		r.results <- result{code: c.code}
	default:
		r.say("the command has ended, code %d; it starts again when this process leads again", c.code)
	}
	return nil
}

// startCommand starts the command with its guard, which inherits lock unless that is nil. It
// returns nil if elect is ending.
func (r *runner) startCommand(lead *election.Leadership, lock *os.File) (c *child, err error) {
	environ := append(r.environ[:len(r.environ):len(r.environ)], fmt.Sprintf("ELECTION_TERM=%d", lead.Term))
	r.mu.Lock()
	if !r.stopping {
		c, err = startChild(lead, r.limits, r.command, environ, lock)
		if r.child = c; c != nil {
			r.guard.Store(int64(c.guard.Process.Pid))
		}
	}
	r.mu.Unlock()
	if lock != nil {
		lock.Close() // the guard has its own
	}
	return c, err
}

func (r *runner) printReport(rep report, term uint64) {
	switch rep.what {
	case "started":
		r.say("leads %q in term %d; process %d runs", r.name, term, rep.n)
	case "expiring":
		r.say("the lease is about to expire: ending the command")
	case "denied":
		r.say("process %d belongs to another user, and elect may not kill it without CAP_KILL: IT RUNS ON, even when another process leads", rep.n)
	case "late":
		r.say("elected with too little time left to start the command")
	}
}

// awaitExpiry waits until a lease that could not be renewed is lost, so that the store records a
// failed leadership and not a released one. It returns early if a renewal succeeds after all.
func awaitExpiry(ctx context.Context, lead *election.Leadership) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for before := lead.Remaining(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		remaining := lead.Remaining()
		if remaining > before {
			return
		}
		before = remaining
	}
}
