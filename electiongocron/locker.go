package electiongocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-election/go-election/election"
)

// A Locker is a gocron.Locker: one of the processes that share a store does each run of a job, not always the
// same process. Each job has its own election, which a process wins for one run. A process that has resigned
// does not campaign for half a TTL, and may miss runs in that time, so a job must not be due more often.
//
// gocron's lock cannot cancel its job or pass it the term. Do does both, with any scheduler or none.
type Locker struct {
	Manager *election.Manager
	Prefix  string // of the elections' names

	// Least is the shortest time for which a lock is kept, even if the job is done. It
	// must exceed the difference between the clocks of the processes; otherwise a process
	// whose clock is late repeats a short job. Default: 0.
	Least time.Duration

	// Greatest is the longest time for which a lock is kept. After it Do ends the job's
	// context, and releases the lock when the job has returned. Lock can only release the
	// lock while the job continues. Default: 0, no limit.
	Greatest time.Duration

	mu sync.Mutex // held to join an election
}

// errTooLong is the cause of a job's cancelled context after Greatest.
var errTooLong = errors.New("the job has taken longer than its lock may be kept")

// Do makes one attempt, and runs job if it gets the lock. It returns the job's error,
// or [ErrNotLeader]. The job's context ends with ctx, with the lease, and after Greatest;
// lead.Term fences the job's writes. Do releases the lock after the job has returned.
func (l *Locker) Do(ctx context.Context, key string, job election.LeadFunc) error {
	lead, err := l.try(ctx, key)
	if err != nil {
		return err
	}
	held := &lock{lead: lead, keepUntil: time.Now().Add(l.Least)}
	defer held.Unlock(ctx)
	work, cancel := context.WithCancelCause(lead.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if l.Greatest > 0 {
		defer time.AfterFunc(l.Greatest, func() { cancel(errTooLong) }).Stop()
	}
	return job(work, lead)
}

// Lock makes one attempt to get the lock.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lead, err := l.try(ctx, key)
	if err != nil {
		return nil, err
	}
	held := &lock{lead: lead, keepUntil: time.Now().Add(l.Least)}
	if l.Greatest > 0 {
		held.greatest = time.AfterFunc(l.Greatest, func() { lead.Resign(context.Background()) })
	}
	return held, nil
}

func (l *Locker) try(ctx context.Context, key string) (*election.Leadership, error) {
	e, err := l.join(l.Prefix + key)
	if err != nil {
		return nil, err
	}
	lead, err := e.Try(ctx)
	if errors.Is(err, election.ErrNotElected) {
		err = fmt.Errorf("%s: %w", key, ErrNotLeader)
	}
	return lead, err
}

// join returns the election, and joins it on first use.
func (l *Locker) join(name string) (*election.Election, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.Manager.Election(name); e != nil {
		return e, nil
	}
	return l.Manager.Join(name)
}

type lock struct {
	lead      *election.Leadership
	keepUntil time.Time
	greatest  *time.Timer
}

// Unlock releases the lock. Before keepUntil it only schedules the release, and returns at once.
func (l *lock) Unlock(ctx context.Context) error {
	if l.greatest != nil {
		l.greatest.Stop()
	}
	if early := time.Until(l.keepUntil); early > 0 {
		time.AfterFunc(early, func() { l.lead.Resign(context.Background()) })
		return nil
	}
	return l.lead.Resign(context.WithoutCancel(ctx))
}
