package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/go-election/go-election/election"
)

var fleets = flag.String("fleets", "3+3 30+3 300+3", "the fleets of TestFleets: candidates, and processes that only watch")

// TestFleets prints how long a handover takes after a leader has resigned, how much later than the next leader all
// others hear of it, and what that costs. All processes are in this one, with a client and connections of their own.
// It asserts nothing.
func TestFleets(t *testing.T) {
	all := measured(t)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	fmt.Println("| store | with | candidates + observers | leads after: median, worst | others know: median, 99 %, worst | messages a handover | a minute, idle, each process |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, s := range all {
		for _, with := range s.rows(plain) {
			if with != plain && with != etcdElection {
				continue // it tells nobody who leads
			}
			for _, size := range strings.Fields(*fleets) {
				fmt.Printf("| %s %s | %s | %s |%s\n", s.name, s.version, with, size, s.fleet(t, with, size))
			}
		}
	}
}

// A seat is one process of a fleet.
type seat struct {
	id     string
	resign func() error // nil: it only watches
	heard  chan string  // the ids of leaders, in order
	close  func()
}

// fleet measures handovers of a fleet of so many candidates and observers.
func (s store) fleet(t *testing.T, with, size string) string {
	left, right, _ := strings.Cut(size, "+")
	candidates, err := strconv.Atoi(left)
	observers, err2 := strconv.Atoi(right)
	if err := errors.Join(err, err2); err != nil {
		t.Fatalf("-fleets: %v", err)
	}
	r := s.role(with, storesTTL)
	seats := make([]seat, candidates+observers)
	var wg sync.WaitGroup
	for i := range seats {
		r := r
		r.ID = fmt.Sprintf("p%d", i)
		open := r.ours
		if with == etcdElection {
			open = r.observed
		}
		if i == 0 { // it makes what is missing in the store
			seats[i] = must(t, open, candidates > 0)
			hear(t, seats[i], "")
			continue
		}
		wg.Go(func() { seats[i] = must(t, open, i < candidates) })
	}
	wg.Wait()
	for _, seat := range seats {
		defer seat.close()
	}
	leader := seats[0].id
	for _, seat := range seats[1:] {
		hear(t, seat, leader)
	}
	<-time.After(storesTTL)
	before := s.counted(t)
	<-time.After(span(30*time.Second, 10*time.Second))
	idle := (s.counted(t) - before) / float64(span(30*time.Second, 10*time.Second))

	var gaps, news []time.Duration
	var messages []float64
	for range rounds(21, 5) {
		before, began := s.counted(t), time.Now()
		at := slices.IndexFunc(seats, func(s seat) bool { return s.id == leader })
		resigned := make(chan error, 1)
		go func() { resigned <- seats[at].resign() }()
		times := make([]time.Time, len(seats))
		next := make([]string, len(seats))
		var wg sync.WaitGroup
		for i := range seats {
			wg.Go(func() { next[i], times[i] = hear(t, seats[i], "") })
		}
		wg.Wait()
		if err := <-resigned; err != nil {
			t.Fatal(err)
		}
		leader = next[0]
		at = slices.IndexFunc(seats, func(s seat) bool { return s.id == leader })
		if at < 0 || slices.ContainsFunc(next, func(id string) bool { return id != leader }) {
			t.Fatalf("%s, %s: the processes heard of %q", s.name, size, next)
		}
		gaps = append(gaps, times[at].Sub(began))
		for i := range seats {
			if i != at {
				news = append(news, max(0, times[i].Sub(times[at])))
			}
		}
		<-time.After(time.Second)
		messages = append(messages, s.counted(t)-before-idle*float64(time.Since(began)))
		<-time.After(storesTTL / 2) // who has resigned does not bid for so long
	}
	slices.Sort(gaps)
	slices.Sort(news)
	slices.Sort(messages)
	return fmt.Sprintf(" %v, %v | %v, %v, %v | %.0f | %.1f |", round(gaps[len(gaps)/2]), round(gaps[len(gaps)-1]),
		round(news[len(news)/2]), round(news[len(news)*99/100]), round(news[len(news)-1]),
		messages[len(messages)/2], idle*float64(time.Minute)/float64(len(seats)))
}

func must(t *testing.T, open func(bool) (seat, error), candidate bool) seat {
	s, err := open(candidate)
	if err != nil {
		t.Error(err)
	}
	return s
}

// hear waits until a process hears of a leader: of a certain one, if an id is given.
func hear(t *testing.T, s seat, id string) (string, time.Time) {
	late := time.After(time.Minute)
	for {
		select {
		case next := <-s.heard:
			if id == "" || next == id {
				return next, time.Now()
			}
		case <-late:
			t.Errorf("%s has heard of no leader %s for a minute", s.id, id)
			return "", time.Now()
		}
	}
}

// ours opens a process that uses this module.
func (r role) ours(candidate bool) (s seat, err error) {
	b, err := r.open(context.Background(), &counter{})
	if err != nil {
		return s, err
	}
	m, err := election.New(b, election.Options{ID: r.ID, TTL: r.TTL, Observer: !candidate})
	if err != nil {
		return s, err
	}
	e, err := m.Join("bench")
	if err != nil {
		return s, err
	}
	s = seat{id: r.ID, heard: make(chan string, 1000), close: func() { m.Close(context.Background()) }}
	e.Watch(func(ev election.Event) {
		if ev.Kind == election.Elected {
			s.heard <- ev.Leader.ID
		}
	})
	if candidate {
		s.resign = func() error { return e.Resign(context.Background()) }
		err = e.Lead(nil)
	}
	return s, err
}

// observed opens a process that campaigns by etcd's Election, and hears of leaders by its Observe.
func (r role) observed(candidate bool) (s seat, err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(r.Server, ","), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return s, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(r.TTL.Seconds())))
	if err != nil {
		return s, err
	}
	e := concurrency.NewElection(session, r.Name)
	ctx, cancel := context.WithCancel(context.Background())
	s = seat{id: r.ID, heard: make(chan string, 1000), close: func() { cancel(); client.Close() }}
	go func() {
		for found := range e.Observe(ctx) {
			s.heard <- string(found.Kvs[0].Value)
		}
	}()
	if candidate {
		campaign := func() { e.Campaign(ctx, r.ID) }
		go campaign()
		s.resign = func() error {
			if err := e.Resign(ctx); err != nil {
				return err
			}
			time.AfterFunc(r.TTL/4, campaign) // to the end of the queue
			return nil
		}
	}
	return s, err
}
