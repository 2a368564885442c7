package elect

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionshard"
)

// campaign campaigns until the command has ended, or elect is to end. It returns the exit code.
func (r *runner) campaign(m *election.Manager) (int, error) {
	signals := make(chan os.Signal, 16)
	catch(signals, syscall.SIGWINCH)
	defer signal.Stop(signals)

	m.Watch(r.watch)
	if err := r.begin(m); err != nil {
		return r.finish(m, exitElect, err, signals)
	}
	var waited <-chan time.Time
	if r.wait > 0 {
		waited = time.After(r.wait)
	}
	for {
		select {
		case <-waited:
			if r.givesUp() {
				return r.finish(m, exitTimeout, fmt.Errorf("not elected within %v", rounded(r.wait)), signals)
			}
		case res := <-r.result:
			return r.finish(m, res.code, res.err, signals)
		case s := <-signals:
			if s := s.(syscall.Signal); !r.isEcho(s) && r.handleSignal(s) {
				return r.finish(m, 0, nil, signals)
			}
		}
	}
}

// begin campaigns in the background: in the election, or for one of the slots.
func (r *runner) begin(m *election.Manager) error {
	if r.slots == 0 {
		return r.election.Lead(r.lead)
	}
	var slots []string
	for n := range r.slots {
		slots = append(slots, fmt.Sprintf("%s/%d", r.name, n+1))
	}
	_, err := electionshard.Lead(m, r.name, slots, r.lead, electionshard.Options{Limit: 1})
	return err
}

// finish waits until the lease is released. A signal ends the wait; then the lease expires.
func (r *runner) finish(m *election.Manager, code int, err error, signals <-chan os.Signal) (int, error) {
	closed := make(chan error, 1)
	go func() { closed <- closeWithin(m, 2*r.ttl) }()
	for {
		select {
		case closed := <-closed:
			if closed != nil {
				r.say("%v", closed)
			}
			return code, err
		case s := <-signals:
			if s := s.(syscall.Signal); isTermination(s) && !r.isEcho(s) {
				r.say("%v again: not waiting for the release; the lease will expire", s)
				return code, err
			}
		}
	}
}

// handleSignal passes a signal on to the command. The first signal that asks elect to end makes the command
// end, the second kills it. If no command runs, it reports whether elect should end: also at SIGHUP, if its
// terminal is gone. A service has none, and is asked to read its configuration again.
func (r *runner) handleSignal(s syscall.Signal) (end bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.child == nil:
		end = isTermination(s) || s == syscall.SIGHUP && r.terminal
		r.stopping = r.stopping || end
	case !isTermination(s):
		r.child.send("signal", int64(s))
	case r.stopping:
		r.say("%v again: killing the command", s)
		r.child.kill()
	default:
		r.stopping = true
		r.say("%v: ending the command, then the leadership; a second signal kills the command", s)
		r.child.ask <- s // the first one: it has room
	}
	return end
}

// isEcho reports whether a signal is the last one that asked elect to end, once more.
func (r *runner) isEcho(s syscall.Signal) bool {
	echo := s == r.asked && time.Since(r.askedAt) < echoTime
	if isTermination(s) && !echo {
		r.asked, r.askedAt = s, time.Now()
	}
	return echo
}

func isTermination(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGQUIT
}

// givesUp makes elect end because it has waited long enough, unless the command was started.
func (r *runner) givesUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = r.stopping || !r.started
	return !r.started
}

// lead is the lead function: it runs the command for one leadership.
func (r *runner) lead(ctx context.Context, lead *election.Leadership) error {
	var lock *os.File
	if r.lock != nil {
		var err error
		if lock, err = r.lock(lead.Election()); err != nil {
			return fmt.Errorf("the lease cannot be handed to the command: %w", err)
		}
	}
	c, err := r.startCommand(lead, lock)
	if err != nil {
		r.end(exitElect, err)
		return err
	}
	if c == nil {
		return nil
	}
	c.supervise(ctx)
	byItself := c.err == nil && c.ended && !c.asked && !c.expiring && ctx.Err() == nil
	r.mu.Lock()
	r.child = nil
	stopping := r.stopping
	r.stopping = stopping || c.err != nil || byItself // so that no other slot starts it again
	r.mu.Unlock()
	if c.expiring && !stopping {
		awaitExpiry(ctx, lead)
	}
	ended := fmt.Errorf("the command has ended, code %d", c.code)
	if !stopping && c.err == nil && !byItself {
		r.say("%v; it starts again when this process leads again", ended)
		return nil
	}
	r.end(c.code, c.err)
	return cmp.Or(c.err, ended) // the reason that watch tells
}

// startCommand starts the command with its guard, which inherits lock. It returns nil if elect is ending.
func (r *runner) startCommand(lead *election.Leadership, lock *os.File) (c *child, err error) {
	environ := append(slices.Clip(r.environ),
		fmt.Sprintf("ELECTION_TERM=%d", lead.Term), "ELECTION_NAME="+lead.Election())
	r.mu.Lock()
	if !r.stopping {
		r.started = true
		c, err = r.startChild(lead, environ, lock)
		r.child = c
	}
	r.mu.Unlock()
	if lock != nil {
		lock.Close() // the guard has its own
	}
	return c, err
}

// awaitExpiry waits until a lease that could not be renewed is lost, to be recorded as failed, or is renewed.
func awaitExpiry(ctx context.Context, lead *election.Leadership) {
	for before := lead.Remaining(); ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		remaining := lead.Remaining()
		if remaining > before {
			return
		}
		before = remaining
	}
}
