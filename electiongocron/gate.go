package electiongocron

import (
	"context"
	"errors"
	"sync"

	"github.com/go-election/go-election/election"
)

// ErrNotLeader says that a job does not run because this process does not lead, or did not get the lock.
var ErrNotLeader = errors.New("electiongocron: this process does not lead")

// A Gate admits jobs while this process leads. Schedulers run on every node, and each of their jobs passes
// through the gate. When the leadership ends, the gate closes, the contexts of the running jobs are
// cancelled, and the lease is released after the last of them has returned, so no job runs beside one of the
// next leader. The zero Gate is closed; pass its Lead to Election.Run.
type Gate struct {
	mu   sync.Mutex
	lead *election.Leadership // nil: closed
	ctx  context.Context
	jobs sync.WaitGroup // running jobs
}

// Lead opens the gate for one leadership. It is an election.LeadFunc.
func (g *Gate) Lead(ctx context.Context, lead *election.Leadership) error {
	g.set(ctx, lead)
	<-ctx.Done()
	g.set(ctx, nil) // admit no further job
	g.jobs.Wait()
	return nil
}

func (g *Gate) set(ctx context.Context, lead *election.Leadership) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx, g.lead = ctx, lead
}

// Do runs job and returns its error if this process leads, and [ErrNotLeader] otherwise.
// The job's context ends with the leadership; lead.Term fences the job's writes.
func (g *Gate) Do(job election.LeadFunc) error {
	g.mu.Lock()
	ctx, lead := g.ctx, g.lead
	if lead == nil || !lead.Leading() {
		g.mu.Unlock()
		return ErrNotLeader
	}
	g.jobs.Add(1)
	g.mu.Unlock()
	defer g.jobs.Done()
	return job(ctx, lead)
}

// IsLeader makes the gate a gocron.Elector. gocron neither cancels a job whose leadership ends nor waits for
// it: call Do within the task, too.
func (g *Gate) IsLeader(context.Context) error {
	return g.Do(func(context.Context, *election.Leadership) error { return nil })
}
