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
	"github.com/go-election/go-election/electiongocron"
	"github.com/go-election/go-election/electionprom"
)

// A task is one job of the service.
type task struct {
	name    string
	every   string // the schedule, as robfig/cron writes it
	atStart bool   // the task also runs when a leadership begins
	do      election.LeadFunc
	running sync.Mutex // held during a run
}

// A service runs on each node: the same tasks everywhere, behind one gate.
type service struct {
	tasks  []*task
	gate   electiongocron.Gate
	failed *prometheus.CounterVec
}

func newService(tasks ...*task) *service {
	s := &service{tasks: tasks, failed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "job_failures_total", Help: "Runs of a job that ended with an error.",
	}, []string{"job"})}
	for _, t := range tasks {
		s.failed.WithLabelValues(t.name) // export 0 before the first failure
	}
	return s
}

// run runs the service on one node until ctx ends. Cron runs whether the node leads or not.
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

// onLeader returns a job for robfig/cron that runs only on the leader. Other nodes skip it
// without an error.
func onLeader(g *electiongocron.Gate, job election.LeadFunc) cron.Job {
	return cron.FuncJob(func() { g.Do(job) })
}

// lead runs during one leadership: it starts the tasks that run at its start, and opens the
// gate for those of cron. It returns when all of them have returned.
func (s *service) lead(ctx context.Context, lead *election.Leadership) error {
	var atStart sync.WaitGroup
	for _, t := range s.tasks {
		if t.atStart {
			atStart.Go(func() { s.job(t)(ctx, lead) })
		}
	}
	defer atStart.Wait()
	return s.gate.Lead(ctx, lead)
}

// job runs a task once, unless its previous run continues. It logs and counts failures,
// cancelled runs included.
func (s *service) job(t *task) election.LeadFunc {
	return func(ctx context.Context, lead *election.Leadership) error {
		if !t.running.TryLock() {
			return nil
		}
		defer t.running.Unlock()
		err := t.do(ctx, lead)
		if err != nil {
			slog.Error("job failed", "job", t.name, "term", lead.Term, "error", err)
			s.failed.WithLabelValues(t.name).Inc()
		}
		return err
	}
}

// metrics exports the metrics of the elections and the number of failed runs.
func (s *service) metrics(m *election.Manager) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(electionprom.New(m, electionprom.Options{}), s.failed)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
