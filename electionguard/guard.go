package electionguard

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
)

// Options describe the guard of a process.
type Options struct {
	// Store is passed to the function that [Main] got, in the guard, for it to open the store. It
	// reaches the guard through a pipe, so it may hold secrets.
	Store []byte

	// Grace is for how long the guard waits after the program has ended, before it releases. Default: 0.
	Grace time.Duration

	// Logger gets a warning if the guard ends before the program. Default: slog.Default.
	Logger *slog.Logger
}

// A Guard is the program's side of its guard. An [election.Manager] whose options name it tells it
// what is held. It serves one manager, which closes it. Its methods are safe for concurrent use and
// return at once. All methods of a nil Guard do nothing.
type Guard struct {
	o   Options
	pid int

	mu   sync.Mutex
	pipe *os.File // nil: closed
}

// Bidding notes bids that are about to be sent.
func (g *Guard) Bidding(bids []backend.Bid) {
	lines := []report{{Nonce: string(bids[0].Candidate.Nonce), TTL: bids[0].TTL}}
	for _, b := range bids {
		lines = append(lines, report{Holds: b.Election})
	}
	g.send(lines)
}

// Answered notes the answers to those bids.
func (g *Guard) Answered(bids []backend.Bid, answers []backend.Answer) {
	var lines []report
	for i, a := range answers {
		switch a.Outcome {
		case backend.Granted:
			lines = append(lines, report{Holds: bids[i].Election, Term: a.Term})
		case backend.Refused:
			lines = append(lines, report{Released: bids[i].Election})
		}
	}
	g.send(lines)
}

// Released notes that leases are not held any more.
func (g *Guard) Released(held []backend.Held) {
	var lines []report
	for _, h := range held {
		lines = append(lines, report{Released: h.Election})
	}
	g.send(lines)
}

// PID is the guard's process id, for programs that reap all their children; 0 if g is nil.
func (g *Guard) PID() int {
	if g == nil {
		return 0
	}
	return g.pid
}

// send tells the guard. What does not fit into the pipe at once, because the guard is stopped, is lost: then
// an election may cost a TTL.
func (g *Guard) send(lines []report) {
	if g != nil {
		g.tell(20*time.Millisecond, lines...)
	}
}

// tell writes lines to the guard. The last one before may have been cut, so they begin with a new line.
func (g *Guard) tell(patience time.Duration, lines ...report) error {
	text := []byte("\n")
	for _, r := range lines {
		line, _ := json.Marshal(r) // cannot fail
		text = append(append(text, line...), '\n')
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil {
		return os.ErrClosed
	}
	g.pipe.SetWriteDeadline(time.Now().Add(patience))
	_, err := g.pipe.Write(text)
	return err
}

// Close ends the guard without a release. The manager calls it after its last release.
func (g *Guard) Close() error {
	if g == nil {
		return nil
	}
	g.send([]report{{End: true}})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil {
		return nil
	}
	err := g.pipe.Close()
	g.pipe = nil
	return err
}

// watch waits for the end of the guard process.
func (g *Guard) watch(wait func() error) {
	err := wait()
	g.mu.Lock()
	closed := g.pipe == nil
	g.mu.Unlock()
	if !closed {
		g.o.Logger.Warn("the guard has ended: a crash of this process costs a TTL from now on", "error", err)
	}
}

// An Open opens the store in the guard. store is [Options].Store. The store need not answer yet.
type Open func(ctx context.Context, store []byte) (backend.Backend, error)

// variable marks the environment of a guard. Package config refuses unknown names that begin with ELECTION_.
const variable = "GO_ELECTION_GUARD"

// isMain is set if main has called Main, so that another process of this program can be a guard.
var isMain atomic.Bool

func (o *Options) check() error {
	switch {
	case o.Grace < 0:
		return fmt.Errorf("electionguard: %w: Grace is %v, must be at least 0", backend.ErrInvalid, o.Grace)
	case !isMain.Load():
		return fmt.Errorf("electionguard: %w: call config.RunGuard or electionguard.Main first of all in "+
			"main, or in TestMain: a guard is this program, started again. A test needs none: "+
			"ELECTION_GUARD=false overrides \"guard: true\"", backend.ErrInvalid)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return nil
}
