package electiongocron

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

func startWithGate(t *testing.T, g *electiontest.Group, id string) (*electiontest.Process, *Gate) {
	t.Helper()
	p, gate := g.Start(id), new(Gate)
	e, err := p.Join("jobs")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Lead(gate.Lead); err != nil {
		t.Fatal(err)
	}
	return p, gate
}

func TestJobsAreCancelledAndJoinedBeforeAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		gates := map[*electiontest.Process]*Gate{}
		for _, id := range []string{"a", "b"} {
			p, gate := startWithGate(t, g, id)
			gates[p] = gate
		}
		first := g.Leader("jobs")
		synctest.Wait()
		done := make(chan error, 1)
		go func() {
			done <- gates[first].Do(func(ctx context.Context, lead *election.Leadership) error {
				defer g.Work(lead)()
				<-ctx.Done()
				time.Sleep(3 * time.Second) // cleanup
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		first.Election("jobs").Pause()
		synctest.Wait()
		second := g.Leader("jobs")
		synctest.Wait()
		select {
		case err := <-done:
			if _, ok := err.(*election.EndError); !ok {
				t.Errorf("the job's context ended because of %v", err)
			}
		default:
			t.Error("another leads while the job has not returned")
		}
		if second == first {
			t.Error("the paused process leads")
		}
		if err := gates[first].IsLeader(t.Context()); err != ErrNotLeader {
			t.Errorf("the gate of the former leader: %v", err)
		}
		if err := gates[second].Do(func(_ context.Context, lead *election.Leadership) error { g.Work(lead)(); return nil }); err != nil {
			t.Errorf("the gate of the leader: %v", err)
		}
	})
}

// gocron runs on both nodes, and the job runs on the leader.
func TestGocronWithTheGateAsElector(t *testing.T) {
	g := electiontest.New(t, election.Options{})
	ran := make(chan uint64, 1000)
	stop := map[*electiontest.Process]func(){}
	for _, id := range []string{"a", "b"} {
		p, gate := startWithGate(t, g, id)
		s, err := gocron.NewScheduler(gocron.WithDistributedElector(gate))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Shutdown() })
		_, err = s.NewJob(gocron.DurationJob(50*time.Millisecond), gocron.NewTask(func() error {
			return gate.Do(func(_ context.Context, lead *election.Leadership) error {
				defer g.Work(lead)()
				ran <- lead.Term
				return nil
			})
		}))
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		stop[p] = func() { p.Election("jobs").Pause() }
	}
	term := <-ran
	stop[g.Leader("jobs")]()
	for next := range ran { // only the test's time limit bounds this loop
		if next > term {
			break
		}
	}
}

func TestALockIsHeldForAsLongAsItShould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		a := &Locker{Manager: g.Start("a").Manager, Prefix: "lock/", Least: 2 * time.Second}
		b := &Locker{Manager: g.Start("b").Manager, Prefix: "lock/", Greatest: 5 * time.Second}

		held, err := a.Lock(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Lock(t.Context(), "report"); err == nil {
			t.Error("two hold one lock")
		}
		if _, err := b.Lock(t.Context(), "another"); err != nil {
			t.Errorf("another lock: %v", err)
		}
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := b.Lock(t.Context(), "report"); err == nil {
			t.Error("the lock was free after one second, want two")
		}
		time.Sleep(1500 * time.Millisecond)
		if _, err := b.Lock(t.Context(), "report"); err != nil {
			t.Errorf("the lock is not free after its least time: %v", err)
		}
		time.Sleep(4 * time.Second)
		if _, err := a.Lock(t.Context(), "report"); err == nil {
			t.Error("two hold one lock")
		}
		time.Sleep(4 * time.Second)
		if _, err := a.Lock(t.Context(), "report"); err != nil {
			t.Errorf("the lock is not free after its greatest time: %v", err)
		}
	})
}

func TestAJobEndsBeforeItsLockDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		a := &Locker{Manager: g.Start("a").Manager, Greatest: 5 * time.Second, Least: 7 * time.Second}
		b := &Locker{Manager: g.Start("b").Manager}
		began := time.Now()
		done := make(chan error, 1)
		go func() {
			done <- a.Do(t.Context(), "report", func(ctx context.Context, lead *election.Leadership) error {
				defer g.Work(lead)()
				<-ctx.Done()
				time.Sleep(4 * time.Second) // cleanup
				return context.Cause(ctx)
			})
		}()
		never := func(context.Context, *election.Leadership) error {
			t.Errorf("after %v two run the job of one lock", time.Since(began))
			return nil
		}
		for range 8 {
			time.Sleep(time.Second)
			if err := b.Do(t.Context(), "report", never); !errors.Is(err, ErrNotLeader) {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		if err := <-done; err != errTooLong || time.Since(began).Round(time.Second) != 9*time.Second {
			t.Errorf("after %v the job's context has ended because of %v, want errTooLong, and 4 s of cleanup", time.Since(began), err)
		}
		synctest.Wait()
		if err := b.Do(t.Context(), "report", func(_ context.Context, lead *election.Leadership) error { g.Work(lead)(); return nil }); err != nil {
			t.Errorf("the lock is not free when the job has returned: %v", err)
		}

		// A short job keeps the lock for its least time.
		if err := a.Do(t.Context(), "short", func(context.Context, *election.Leadership) error { return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if err := b.Do(t.Context(), "short", never); !errors.Is(err, ErrNotLeader) {
			t.Errorf("before the least time has passed: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := b.Do(t.Context(), "short", func(context.Context, *election.Leadership) error { return nil }); err != nil {
			t.Errorf("after the least time: %v", err)
		}
	})
}

// gocron starts the job on both nodes at the same instant. One node gets the lock of each run,
// and the lock is free for the next run.
func TestGocronWithTheLockerRunsAJobOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		const runs = 20
		ran := make(chan time.Time, 10*runs)
		for _, id := range []string{"a", "b"} {
			locker := &Locker{Manager: g.Start(id).Manager, Prefix: "lock/", Least: 500 * time.Millisecond}
			s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Shutdown()
			job := gocron.NewTask(func() { ran <- time.Now() })
			if _, err := s.NewJob(gocron.CronJob("*/10 * * * * *", true), job, gocron.WithName("report")); err != nil {
				t.Fatal(err)
			}
			s.Start()
		}
		time.Sleep(runs*10*time.Second + 5*time.Second)
		times := map[time.Time]int{}
		for len(ran) > 0 {
			times[(<-ran).Truncate(time.Second)]++
		}
		if len(times) != runs {
			t.Errorf("the job ran at %d times, want %d", len(times), runs)
		}
		for at, n := range times {
			if n != 1 {
				t.Errorf("at %v %d nodes ran the job", at, n)
			}
		}
	})
}
