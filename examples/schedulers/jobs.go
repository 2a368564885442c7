package main

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/robfig/cron/v3"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionprom"
)

// A task is one job of the service.
type task struct {
	name  string
	every string // in the words of robfig/cron
	first bool   // it also runs when a leadership begins
	do    election.LeadFunc
	busy  sync.Mutex // it does not run twice at a time
}

// A service is what each node runs: the same tasks everywhere, behind one gate.
type service struct {
	tasks  []*task
	gate   Gate
	failed *prometheus.CounterVec
}

func newService(tasks ...*task) *service {
	s := &service{tasks: tasks, failed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "job_failures_total", Help: "Runs of a job that ended with an error.",
	}, []string{"job"})}
	for _, t := range tasks {
		s.failed.WithLabelValues(t.name) // 0 is shown as well
	}
	return s
}

// run is the service on one node, until ctx ends. Cron goes on whether it leads or not.
func (s *service) run(ctx context.Context, e *election.Election) error {
	c := cron.New()
	for _, t := range s.tasks {
		if _, err := c.AddJob(t.every, onLeader(&s.gate, s.job(t))); err != nil {
			return err
		}
	}
	c.Start()
	defer c.Stop()
	return e.Run(ctx, s.lead)
}

// onLeader makes a job for robfig/cron that runs only on the leader; elsewhere it is
// skipped, and that is no error.
func onLeader(g *Gate, job election.LeadFunc) cron.Job {
	return cron.FuncJob(func() { g.Do(job) })
}

// lead is one leadership: the tasks that begin it, and the gate for those of cron. All
// have returned when it does.
func (s *service) lead(ctx context.Context, lead *election.Leadership) error {
	var first sync.WaitGroup
	for _, t := range s.tasks {
		if t.first {
			first.Go(func() { s.job(t)(ctx, lead) })
		}
	}
	defer first.Wait()
	return s.gate.Lead(ctx, lead)
}

// job is one run of a task, unless the run before it goes on. If it fails, which it does
// also when it is cancelled, that is logged and counted.
func (s *service) job(t *task) election.LeadFunc {
	return func(ctx context.Context, lead *election.Leadership) error {
		if !t.busy.TryLock() {
			return nil
		}
		defer t.busy.Unlock()
		err := t.do(ctx, lead)
		if err != nil {
			slog.Error("job failed", "job", t.name, "term", lead.Term, "error", err)
			s.failed.WithLabelValues(t.name).Inc()
		}
		return err
	}
}

// metrics shows what the elections do, and how many runs have failed.
func (s *service) metrics(m *election.Manager) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(electionprom.New(m, nil), s.failed)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
