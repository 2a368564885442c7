package bench

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

// A fleet of processes runs in up to ten programs. Each process has a client and connections of its own.
const fleetPrograms = 10

// A seat is one process of a fleet.
type seat struct {
	id     string
	resign func() (led bool) // all that it leads
	heard  chan time.Time    // when it has heard, whenever all elections have new leaders
	close  func()
}

// fleet measures handovers of a fleet of so many candidates and observers.
func (s store) fleet(t *testing.T, with, size string) string {
	candidates, observers, elections := 0, 0, 1
	if n, _ := fmt.Sscanf(size, "%d+%dx%d", &candidates, &observers, &elections); n < 2 {
		t.Fatalf("-fleets: %q", size)
	}
	r := s.role(with, storesTTL)
	r.Kind, r.Elections, r.Candidates, r.Processes = "fleet", elections, candidates, candidates+observers
	lines := make(chan line, r.Processes)
	programs := make([]*child, min(fleetPrograms, r.Processes))
	var opened time.Time
	var known []time.Time
	for r.Program = range programs {
		programs[r.Program] = start(t, r, lines)
		defer programs[r.Program].end(syscall.SIGTERM)
		if r.Program == 0 {
			opened = await(t, lines, "opens").At
			await(t, lines, "leads") // it has made what is missing in the store
		}
	}
	for len(known) < len(programs) {
		known = append(known, await(t, lines, "all").At)
	}
	start := slices.MaxFunc(known, time.Time.Compare).Sub(opened)

	<-time.After(storesTTL)
	before, cpu := s.counted(t), serversCPU(t)
	<-time.After(span(30*time.Second, 10*time.Second))
	each := span(30*time.Second, 10*time.Second)
	idle, idleCPU := (s.counted(t)-before)/float64(each), float64(serversCPU(t)-cpu)/float64(each)

	var gaps, news []time.Duration
	var messages []float64
	var busy time.Duration
	for range rounds(21, 5) {
		before, cpu, began := s.counted(t), serversCPU(t), time.Now()
		for _, p := range programs {
			p.cmd.Process.Signal(syscall.SIGHUP)
		}
		var resigned, heard []time.Time
		for len(heard) < r.Processes {
			switch l := await(t, lines, "resigns", "heard"); l.What {
			case "resigns":
				resigned = append(resigned, l.At)
			case "heard":
				heard = append(heard, l.At)
			}
		}
		messages = append(messages, s.counted(t)-before-idle*float64(time.Since(began)))
		busy += serversCPU(t) - cpu - time.Duration(idleCPU*float64(time.Since(began)))

		slices.SortFunc(heard, time.Time.Compare)
		gaps = append(gaps, heard[0].Sub(slices.MinFunc(resigned, time.Time.Compare)))
		for _, at := range heard[1:] {
			news = append(news, at.Sub(heard[0]))
		}
		<-time.After(storesTTL / 2) // who has resigned does not bid for so long
	}
	slices.Sort(gaps)
	slices.Sort(news)
	slices.Sort(messages)
	return fmt.Sprintf(" %v | %v, %v | %v, %v, %v | %.0f, %v | %.1f |", round(start), round(gaps[len(gaps)/2]), round(gaps[len(gaps)-1]),
		round(news[len(news)/2]), round(news[len(news)*99/100]), round(news[len(news)-1]),
		messages[len(messages)/2], round(max(busy, 0)/time.Duration(len(gaps))), idle*float64(time.Minute)/float64(r.Processes))
}

// fleet is one program of a fleet: every tenth of the processes. At SIGHUP those that lead resign, and when all have heard
// of the next leaders, it reports when that was.
func (r role) fleet(ctx context.Context) error {
	round := make(chan os.Signal, 1)
	signal.Notify(round, syscall.SIGHUP)
	open := role.ours
	switch r.Peer {
	case etcdElection:
		open = role.observed
	case bareRedis:
		open = role.subscribed
	}

	r.say("opens", nil)
	var seats []seat
	for i := r.Program; i < r.Processes; i += fleetPrograms {
		r := r
		r.ID = fmt.Sprintf("p%d", i)
		s, err := open(r, i < r.Candidates)
		if err != nil {
			return err
		}
		seats = append(seats, s)
		if i == 0 {
			s.hear()
			r.say("leads", nil)
		}
	}
	for i, s := range seats {
		if r.Program+i > 0 {
			s.hear()
		}
	}
	r.say("all", nil)

	for {
		select {
		case <-round:
		case <-ctx.Done():
			for _, s := range seats {
				s.close()
			}
			return nil
		}
		for _, s := range seats {
			for len(s.heard) > 0 { // what was said while they began, or twice
				<-s.heard
			}
		}
		<-time.After(300 * time.Millisecond) // until the other programs have done the same
		var resigning sync.WaitGroup
		for _, s := range seats {
			resigning.Go(func() {
				if began := time.Now(); s.resign() {
					r.tell(line{ID: s.id, What: "resigns", At: began})
				}
			})
		}
		times := make([]time.Time, len(seats))
		for i, s := range seats {
			times[i] = s.hear()
		}
		resigning.Wait()
		<-time.After(time.Second) // others may still wait
		for i, s := range seats {
			r.tell(line{ID: s.id, What: "heard", At: times[i]})
		}
	}
}

// hear waits until a process knows new leaders of all elections, and returns when that was.
func (s seat) hear() time.Time {
	select {
	case at := <-s.heard:
		return at
	case <-time.After(time.Minute):
		log.Fatalf("%s has heard of no leader for a minute", s.id)
		panic("unreachable")
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
	s = seat{id: r.ID, heard: make(chan time.Time, 1000), close: func() { m.Close(context.Background()) }}
	led := map[string]bool{}
	m.Watch(func(ev election.Event) {
		if ev.Kind != election.Elected {
			return
		}
		led[ev.Election] = true
		if len(led) == r.Elections {
			clear(led)
			s.heard <- time.Now()
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
	s.resign = func() (led bool) {
		var all sync.WaitGroup
		for _, e := range m.Elections() {
			if e.Leading() {
				led = true
				all.Go(func() { e.Resign(context.Background()) })
			}
		}
		all.Wait()
		return led
	}
	return s, nil
}

// serversCPU returns how much of the processors the servers have used that this process has started. The programs of a
// fleet, which have the name of this one, are none.
func serversCPU(t *testing.T) (sum time.Duration) {
	pages, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	processes := map[string][]string{} // by pid: what follows the name, which may have spaces
	for _, page := range pages {
		text, _ := os.ReadFile(page)
		name, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 14 {
			f[0] = name
			processes[filepath.Base(filepath.Dir(page))] = f
		}
	}

	own := strconv.Itoa(os.Getpid())
	for _, f := range processes {
		parent := f[1]
		for parent != own && processes[parent] != nil {
			parent = processes[parent][1]
		}
		_, name, _ := strings.Cut(f[0], "(")
		if _, self, _ := strings.Cut(processes[own][0], "("); parent != own || name == self {
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
	s = seat{id: r.ID, heard: make(chan time.Time, 1000), close: func() { cancel(); client.Close() }}
	go func() {
		for range e.Observe(ctx) {
			s.heard <- time.Now()
		}
	}()
	campaign := func() { leads.Store(e.Campaign(ctx, r.ID) == nil) }
	if candidate {
		go campaign()
	}
	s.resign = func() (led bool) {
		if led = leads.Swap(false); led {
			time.AfterFunc(r.TTL/4, campaign) // to the end of the queue
			e.Resign(ctx)
		}
		return led
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
	s := seat{id: r.ID, heard: make(chan time.Time, 1000), close: func() { cancel(); sub.Close(); client.Close() }}
	var leads, rests atomic.Bool
	campaign := func() {
		if candidate && !rests.Load() && client.SetNX(ctx, r.Name, r.ID, 0).Val() {
			leads.Store(true)
			s.heard <- time.Now()
			client.Publish(ctx, r.Name, r.ID)
		}
	}
	if _, err := sub.Receive(ctx); err != nil {
		cancel()
		return s, err
	}
	campaign()
	if leader := client.Get(ctx, r.Name).Val(); !leads.Load() && leader != "" {
		s.heard <- time.Now()
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
				s.heard <- time.Now()
			}
		}
	}()
	s.resign = func() (led bool) {
		if led = leads.Swap(false); led {
			rests.Store(true)
			time.AfterFunc(r.TTL/4, func() { rests.Store(false) })
			client.Del(ctx, r.Name)
			client.Publish(ctx, r.Name, "")
		}
		return led
	}
	return s, nil
}
