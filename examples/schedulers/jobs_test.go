package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

// A journal lists which node has started which job, in the order of the runs.
type journal struct {
	mu   sync.Mutex
	runs []string
}

func (j *journal) add(run string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs = append(j.runs, run)
}

// countNew counts the runs since the last call.
func (j *journal) countNew() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	counts := map[string]int{}
	for _, run := range j.runs {
		counts[run]++
	}
	j.runs = nil
	return counts
}

// serve runs a service on a new node until the test ends.
func serve(t *testing.T, g *electiontest.Group, id string, tasks ...*task) (*electiontest.Process, *service) {
	t.Helper()
	p, s := g.Start(id), newService(tasks...)
	e, err := p.Join("jobs")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx, e) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s ends: %v", id, err)
		}
	})
	return p, s
}

// scrape asks for /metrics, as Prometheus does.
func scrape(h http.Handler) string {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Body.String()
}

// Every job runs on the leader by its schedule, and one job also runs when a leadership begins.
func TestJobsRunOnTheLeaderOnSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		var ran journal
		for _, id := range []string{"a", "b"} {
			job := func(name string) election.LeadFunc {
				return func(_ context.Context, lead *election.Leadership) error {
					defer g.Work(lead)()
					ran.add(id + " " + name)
					return nil
				}
			}
			serve(t, g, id,
				&task{name: "report", every: "@every 1m", atStart: true, do: job("report")},
				&task{name: "settle", every: "@every 5m", do: job("settle")})
		}
		lead := func() *electiontest.Process {
			p := g.Leader("jobs")
			synctest.Wait()
			if runs := ran.countNew(); len(runs) != 1 || runs[p.ID()+" report"] != 1 {
				t.Errorf("when %s begins to lead, these jobs run: %v; want its report", p.ID(), runs)
			}
			return p
		}
		minutes := func(n int, leader *electiontest.Process) {
			time.Sleep(time.Duration(n) * time.Minute)
			synctest.Wait()
			if runs := ran.countNew(); len(runs) != 2 || runs[leader.ID()+" report"] != n || runs[leader.ID()+" settle"] != n/5 {
				t.Errorf("while %s leads for %d minutes, these jobs run: %v; want its report each minute, and settle each fifth", leader.ID(), n, runs)
			}
		}

		first := lead()
		minutes(10, first)
		first.Election("jobs").Pause()
		synctest.Wait()
		second := lead()
		if second == first {
			t.Error("the paused process leads")
		}
		minutes(10, second)
		first.Election("jobs").Resume()
		second.Election("jobs").Pause()
		synctest.Wait()
		if again := lead(); again != first {
			t.Error("the resumed process does not lead, though the other one is paused")
		}
	})
}

// When the leadership ends, the run is cancelled, returns before the next leader starts one, and
// is counted as failed.
func TestALostLeadershipCancelsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		var ran journal
		metrics := map[*electiontest.Process]http.Handler{}
		for _, id := range []string{"a", "b"} {
			p, s := serve(t, g, id, &task{name: "report", every: "@every 1m", atStart: true, do: func(ctx context.Context, lead *election.Leadership) error {
				defer g.Work(lead)() // fails the test if two nodes work at once
				ran.add(id)
				<-ctx.Done()
				time.Sleep(3 * time.Second) // cleanup
				ran.add(id + " returned")
				return context.Cause(ctx)
			}})
			metrics[p] = s.metrics(p.Manager)
		}
		first := g.Leader("jobs")
		time.Sleep(5 * time.Minute)
		if runs := ran.countNew(); len(runs) != 1 || runs[first.ID()] != 1 {
			t.Errorf("during the first run these runs have started: %v", runs)
		}
		for p, h := range metrics {
			leads := map[bool]string{true: "1", false: "0"}[p == first]
			for _, want := range []string{`election_leading{election="jobs"} ` + leads, `job_failures_total{job="report"} 0`} {
				if text := scrape(h); !strings.Contains(text, want+"\n") {
					t.Errorf("%s shows no %s:\n%s", p.ID(), want, text)
				}
			}
		}

		first.Election("jobs").Pause()
		synctest.Wait()
		second := g.Leader("jobs")
		synctest.Wait()
		if runs := ran.countNew(); runs[first.ID()+" returned"] != 1 || runs[second.ID()] != 1 {
			t.Errorf("when %s leads after %s: %v; want the former leader's run returned, and the new leader's started", second.ID(), first.ID(), runs)
		}
		for p, h := range metrics {
			failures := map[bool]string{true: "1", false: "0"}[p == first]
			if text, want := scrape(h), `job_failures_total{job="report"} `+failures; !strings.Contains(text, want+"\n") {
				t.Errorf("%s shows no %s:\n%s", p.ID(), want, text)
			}
		}
	})
}
