package bench

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/go-election/go-election/election"
)

var fleets = flag.String("fleets", "3+3 30+3 300+3 3+3x100 30+3x100 300+3x100",
	"the fleets of TestFleets: candidates, processes that only watch, and elections if they are more than one")

// TestFleets prints how long it takes until all elections are led again after all leaders have resigned, how much later
// than the first process that knows all others know it, and what that costs. All processes are in this one, with a
// client and connections of their own. It asserts nothing.
func TestFleets(t *testing.T) {
	all := measured(t)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	fmt.Println("| store | with | candidates + observers | all know at the start | led after: median, worst | others know: median, 99 %, worst | messages, server's CPU a handover | messages a minute, idle, each process |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, s := range all {
		rows := slices.DeleteFunc(s.rows(plain, bareRedis), func(with string) bool { // others tell nobody who leads
			return with != plain && with != etcdElection && (with != bareRedis || s.backend != "redis")
		})
		for _, with := range rows {
			for _, size := range strings.Fields(*fleets) {
				if with == plain || !strings.Contains(size, "x") {
					fmt.Printf("| %s %s | %s | %s |%s\n", s.name, s.version, with, size, s.fleet(t, with, size))
				}
			}
		}
	}
}

// A seat is one process of a fleet.
type seat struct {
	id     string
	resign func() error // all that it leads
	heard  chan string  // the id of the last leader, whenever all elections have new ones
	close  func()
}

// fleet measures handovers of a fleet of so many candidates and observers.
func (s store) fleet(t *testing.T, with, size string) string {
	candidates, observers, elections := 0, 0, 1
	if n, _ := fmt.Sscanf(size, "%d+%dx%d", &candidates, &observers, &elections); n < 2 {
		t.Fatalf("-fleets: %q", size)
	}
	r := s.role(with, storesTTL)
	r.Elections = elections
	seats := make([]seat, candidates+observers)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range seats {
		r := r
		r.ID = fmt.Sprintf("p%d", i)
		open := r.ours
		switch with {
		case etcdElection:
			open = r.observed
		case bareRedis:
			open = r.subscribed
		}
		if i == 0 { // it makes what is missing in the store
			seats[i] = must(t, open, candidates > 0)
			hear(t, seats[i])
			continue
		}
		wg.Go(func() { seats[i] = must(t, open, i < candidates) })
	}
	wg.Wait()
	for _, seat := range seats {
		defer seat.close()
	}
	for _, seat := range seats[1:] {
		hear(t, seat)
	}
	start := time.Since(began)
	<-time.After(storesTTL)
	before, cpu := s.counted(t), serversCPU(t)
	<-time.After(span(30*time.Second, 10*time.Second))
	each := span(30*time.Second, 10*time.Second)
	idle, idleCPU := (s.counted(t)-before)/float64(each), float64(serversCPU(t)-cpu)/float64(each)

	var gaps, news []time.Duration
	var messages []float64
	var busy time.Duration
	for range rounds(21, 5) {
		for _, seat := range seats { // what was said while they began, or twice
			for len(seat.heard) > 0 {
				<-seat.heard
			}
		}
		before, cpu, began := s.counted(t), serversCPU(t), time.Now()
		times := make([]time.Time, len(seats))
		var wg sync.WaitGroup
		for i, seat := range seats {
			wg.Go(func() {
				if err := seat.resign(); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() { _, times[i] = hear(t, seat) })
		}
		wg.Wait()
		slices.SortFunc(times, time.Time.Compare)
		gaps = append(gaps, times[0].Sub(began))
		for _, at := range times[1:] {
			news = append(news, at.Sub(times[0]))
		}
		<-time.After(time.Second)
		messages = append(messages, s.counted(t)-before-idle*float64(time.Since(began)))
		busy += serversCPU(t) - cpu - time.Duration(idleCPU*float64(time.Since(began)))
		<-time.After(storesTTL / 2) // who has resigned does not bid for so long
	}
	slices.Sort(gaps)
	slices.Sort(news)
	slices.Sort(messages)
	return fmt.Sprintf(" %v | %v, %v | %v, %v, %v | %.0f, %v | %.1f |", round(start), round(gaps[len(gaps)/2]), round(gaps[len(gaps)-1]),
		round(news[len(news)/2]), round(news[len(news)*99/100]), round(news[len(news)-1]),
		messages[len(messages)/2], round(max(busy, 0)/time.Duration(len(gaps))), idle*float64(time.Minute)/float64(len(seats)))
}

func must(t *testing.T, open func(bool) (seat, error), candidate bool) seat {
	s, err := open(candidate)
	if err != nil {
		t.Error(err)
	}
	return s
}

// hear waits until a process knows new leaders of all elections, and returns the last one.
func hear(t *testing.T, s seat) (string, time.Time) {
	select {
	case next := <-s.heard:
		return next, time.Now()
	case <-time.After(time.Minute):
		t.Errorf("%s has heard of no leader for a minute", s.id)
		return "", time.Now()
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
	s = seat{id: r.ID, heard: make(chan string, 1000), close: func() { m.Close(context.Background()) }}
	led := map[string]bool{}
	m.Watch(func(ev election.Event) {
		if ev.Kind != election.Elected {
			return
		}
		led[ev.Election] = true
		if len(led) == r.Elections {
			clear(led)
			s.heard <- ev.Leader.ID
		}
	})
	for i := range r.Elections {
		e, err := m.Join(fmt.Sprint("bench", i))
		if err == nil && candidate {
			err = e.Lead(nil)
		}
		if err != nil {
			return s, err
		}
	}
	s.resign = func() error {
		var all sync.WaitGroup
		for _, e := range m.Elections() {
			if e.Leading() {
				all.Go(func() { e.Resign(context.Background()) })
			}
		}
		all.Wait()
		return nil
	}
	return s, nil
}

// serversCPU returns how much of the processors the servers have used that this process has started.
func serversCPU(t *testing.T) (sum time.Duration) {
	pages, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	processes := map[string][]string{} // by pid: what follows the name, which may have spaces
	for _, page := range pages {
		text, _ := os.ReadFile(page)
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 14 {
			processes[filepath.Base(filepath.Dir(page))] = f
		}
	}

	own := strconv.Itoa(os.Getpid())
	for _, f := range processes {
		parent := f[1]
		for parent != own && processes[parent] != nil {
			parent = processes[parent][1]
		}
		if parent != own {
			continue
		}
		for _, ticks := range f[11:15] { // utime, stime, and those of children that have ended
			n, _ := strconv.Atoi(ticks)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
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
	var leads atomic.Bool
	ctx, cancel := context.WithCancel(context.Background())
	s = seat{id: r.ID, heard: make(chan string, 1000), close: func() { cancel(); client.Close() }}
	go func() {
		for found := range e.Observe(ctx) {
			s.heard <- string(found.Kvs[0].Value)
		}
	}()
	campaign := func() { leads.Store(e.Campaign(ctx, r.ID) == nil) }
	if candidate {
		go campaign()
	}
	s.resign = func() error {
		if !leads.Swap(false) {
			return nil
		}
		time.AfterFunc(r.TTL/4, campaign) // to the end of the queue
		return e.Resign(ctx)
	}
	return s, err
}

// bareRedis is the least that a fleet on Redis can cost: a subscription, and SET NX by all that hear of a vacancy. It is no
// election: a leader that crashes leads for ever.
const bareRedis = "SUBSCRIBE, SET NX"

// subscribed opens a process of [bareRedis].
func (r role) subscribed(candidate bool) (seat, error) {
	ctx, cancel := context.WithCancel(context.Background())
	client := redis.NewClient(&redis.Options{Addr: r.Server})
	sub := client.Subscribe(ctx, r.Name)
	s := seat{id: r.ID, heard: make(chan string, 1000), close: func() { cancel(); sub.Close(); client.Close() }}
	var leads, rests atomic.Bool
	campaign := func() {
		if candidate && !rests.Load() && client.SetNX(ctx, r.Name, r.ID, 0).Val() {
			leads.Store(true)
			s.heard <- r.ID
			client.Publish(ctx, r.Name, r.ID)
		}
	}
	if _, err := sub.Receive(ctx); err != nil {
		cancel()
		return s, err
	}
	campaign()
	if leader := client.Get(ctx, r.Name).Val(); !leads.Load() && leader != "" {
		s.heard <- leader
	}
	go func() {
		for {
			said, err := sub.ReceiveMessage(ctx)
			switch {
			case err != nil:
				return
			case said.Payload == "":
				campaign()
			case said.Payload != r.ID:
				s.heard <- said.Payload
			}
		}
	}()
	s.resign = func() error {
		if !leads.Swap(false) {
			return nil
		}
		rests.Store(true)
		time.AfterFunc(r.TTL/4, func() { rests.Store(false) })
		if err := client.Del(ctx, r.Name).Err(); err != nil {
			return err
		}
		return client.Publish(ctx, r.Name, "").Err()
	}
	return s, nil
}
