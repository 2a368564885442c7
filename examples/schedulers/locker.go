package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-election/go-election/election"
)

// A Locker is a gocron.Locker: each run of a job is done by one of the processes
// that share a store, not always the same. Each job is an election of its own,
// which is won for one run. Who has resigned stands back for half a TTL, and may then
// miss runs: a job must not be due more often.
//
// gocron's lock cannot cancel the job that it was taken for, and a job does not learn
// its term. Do can, and says it: with any scheduler, or none.
type Locker struct {
	Manager *election.Manager
	Prefix  string // of the elections' names

	// Least is for how long a lock is kept at least, though the job is done. It
	// must be greater than the clocks of the processes differ, or a job that takes
	// a moment is done again by a process whose clock is late. Default: 0.
	Least time.Duration

	// Greatest is for how long at most. Do then ends the job's context, and releases
	// the lock when the job has returned. Lock can only release it, while the job goes
	// on. Default: 0, for as long as the job takes.
	Greatest time.Duration

	mu sync.Mutex // joining
}

// errTooLong is why the context of a job has ended that takes longer than Greatest.
var errTooLong = errors.New("the job has taken longer than its lock may be kept")

// Do makes one attempt, and runs job if it gets the lock. It returns the job's error,
// or errNotLeader. The job's context ends with ctx, with the lease, and after Greatest;
// lead.Term fences what it writes. The lock is released when the job has returned.
func (l *Locker) Do(ctx context.Context, key string, job func(ctx context.Context, lead *election.Leadership) error) error {
	lead, err := l.try(ctx, key)
	if err != nil {
		return err
	}
	held := &lock{lead: lead, free: time.Now().Add(l.Least)}
	defer held.Unlock(ctx)
	work, cancel := context.WithCancelCause(lead.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	if l.Greatest > 0 {
		defer time.AfterFunc(l.Greatest, func() { cancel(errTooLong) }).Stop()
	}
	return job(work, lead)
}

// Lock makes one attempt.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lead, err := l.try(ctx, key)
	if err != nil {
		return nil, err
	}
	held := &lock{lead: lead, free: time.Now().Add(l.Least)}
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
	if err == nil && lead == nil {
		err = fmt.Errorf("%s: %w", key, errNotLeader)
	}
	return lead, err
}

// join joins an election when it is first asked for.
func (l *Locker) join(name string) (*election.Election, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.Manager.Election(name); e != nil {
		return e, nil
	}
	return l.Manager.Join(name)
}

type lock struct {
	lead     *election.Leadership
	free     time.Time // not before
	greatest *time.Timer
}

// Unlock returns at once. If it is too early the lock is released later.
func (l *lock) Unlock(ctx context.Context) error {
	if l.greatest != nil {
		l.greatest.Stop()
	}
	if early := time.Until(l.free); early > 0 {
		time.AfterFunc(early, func() { l.lead.Resign(context.Background()) })
		return nil
	}
	return l.lead.Resign(context.WithoutCancel(ctx))
}
