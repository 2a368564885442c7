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
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
)

var fleets = flag.String("fleets", "3+3 30+3 300+3 3+3x100 30+3x100 300+3x100",
	"the fleets of TestFleets: candidates, processes that only watch, and elections if they are more than one")

// TestFleets prints how long it takes until all elections are led again after all leaders have resigned, how much later
// than the first process that knows all others know it, and what that costs. Libraries that tell nobody but the new leader
// have no figures of others, and fleets without observers. It asserts nothing.
func TestFleets(t *testing.T) {
	all := measured(t)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	fmt.Println("| store | with | candidates + observers | all know at the start | led after: median, worst | others know: median, 99 %, worst | messages, server's CPU a handover | messages a minute, idle, each process |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, s := range all {
		for _, with := range s.rows(plain, bareRedis) {
			if !slices.Contains(fleetRows, with) || with == bareRedis && s.backend != "redis" {
				continue
			}
			for _, size := range strings.Fields(*fleets) {
				if with == plain || !strings.Contains(size, "x") {
					fmt.Printf("| %s %s | %s |%s\n", s.name, s.version, with, s.fleet(t, with, size))
				}
			}
		}
	}
}

// A fleet of processes runs in up to ten programs. Each process has a client and connections of its own.
const fleetPrograms = 10

var fleetRows = []string{plain, etcdElection, bareRedis, clientGoTTL, consulLock, curatorLatch, riverElector}

// hearing returns how many processes of a fleet hear of a new leader, itself among them.
func (r role) hearing() int {
	switch r.Peer {
	case "", etcdElection, bareRedis:
		return r.Processes
	case clientGoTTL:
		return r.Processes - 1 // whoever has resigned hears nothing until it campaigns again
	}
	return 1
}

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
	if r.hearing() < r.Processes { // no process only watches
		r.Processes, size = candidates, fmt.Sprint(candidates, "+0")
	}
	lines := make(chan line, r.Processes)
	programs, joined := r.programs(t, lines)
	defer func() {
		for _, p := range programs {
			p.end(syscall.SIGTERM)
		}
	}()

	<-time.After(storesTTL)
	before, cpu := s.counted(t), serversCPU(t, programs)
	<-time.After(span(30*time.Second, 10*time.Second))
	each := span(30*time.Second, 10*time.Second)
	idle, idleCPU := (s.counted(t)-before)/float64(each), float64(serversCPU(t, programs)-cpu)/float64(each)

	var gaps, news []time.Duration
	var messages []float64
	var busy time.Duration
	for range rounds(21, 5) {
		before, cpu, began := s.counted(t), serversCPU(t, programs), time.Now()
		resigned, heard := r.handover(t, programs, lines)
		messages = append(messages, s.counted(t)-before-idle*float64(time.Since(began)))
		busy += serversCPU(t, programs) - cpu - time.Duration(idleCPU*float64(time.Since(began)))
		gaps = append(gaps, heard[0].Sub(resigned))
		for _, at := range heard[1:] {
			news = append(news, at.Sub(heard[0]))
		}
		<-time.After(storesTTL / 2) // who has resigned does not bid for so long
	}
	slices.Sort(gaps)
	slices.Sort(news)
	slices.Sort(messages)
	known, others := "–", "–"
	if len(news) > 0 {
		known = round(joined).String()
		others = fmt.Sprintf("%v, %v, %v", round(news[len(news)/2]), round(news[len(news)*99/100]), round(news[len(news)-1]))
	}
	return fmt.Sprintf(" %s | %s | %v, %v | %s | %.0f, %v | %.1f |", size, known, round(gaps[len(gaps)/2]), round(gaps[len(gaps)-1]), others,
		messages[len(messages)/2], round(max(busy, 0)/time.Duration(len(gaps))), idle*float64(time.Minute)/float64(r.Processes))
}

// programs starts the programs of a fleet, and returns how long it took until all processes knew who leads.
func (r role) programs(t *testing.T, lines chan line) (programs []*child, took time.Duration) {
	said := map[string][]time.Time{}
	until := func(what string, times int) {
		for len(said[what]) < times {
			l := await(t, lines, "opens", "leads", "ready")
			said[l.What] = append(said[l.What], l.At)
		}
	}
	for r.Program = range min(fleetPrograms, r.Processes) {
		var ids []string
		for i := r.Program; i < r.Processes; i += fleetPrograms {
			ids = append(ids, fmt.Sprint("p", i))
		}
		r.ID = strings.Join(ids, ",")
		programs = append(programs, start(t, r, lines))
		until("leads", 1) // the first has made what is missing in the store
	}
	until("ready", len(programs))
	return programs, slices.MaxFunc(said["ready"], time.Time.Compare).Sub(said["opens"][0])
}

// handover lets the leaders resign, and returns when the first of them began to, and when processes heard of the next ones.
func (r role) handover(t *testing.T, programs []*child, lines chan line) (resigned time.Time, heard []time.Time) {
	for len(lines) > 0 { // from whoever campaigned again
		<-lines
	}
	for _, p := range programs {
		p.cmd.Process.Signal(syscall.SIGHUP)
	}
	for len(heard) < r.hearing() || resigned.IsZero() {
		switch l := await(t, lines, "resigns", "leads", "heard"); {
		case l.What != "resigns":
			heard = append(heard, l.At)
		case resigned.IsZero() || l.At.Before(resigned):
			resigned = l.At
		}
	}
	if r.hearing() < r.Processes {
		<-time.After(time.Second) // the programs of the others wait so long: what is sent meanwhile counts
	}
	slices.SortFunc(heard, time.Time.Compare)
	return resigned, heard
}

// fleet is one program of a fleet: every tenth of the processes. At SIGHUP those that lead resign, and when all have heard
// of the next leaders, it reports when that was. Where not all hear, it reports at once.
func (r role) fleet(ctx context.Context) error {
	round := make(chan os.Signal, 1)
	signal.Notify(round, syscall.SIGHUP)
	r.say("opens", nil)
	seats, err := r.seats()
	if err != nil {
		return err
	}
	r.say("ready", nil)
	all := r.hearing() == r.Processes
	for _, s := range seats {
		if !all {
			go s.report(r)
		}
	}

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
			for all && len(s.heard) > 0 { // what was said while they began, or twice
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
		if !all {
			continue
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

// seats opens the processes of a program, and returns when they know who leads, if they are told.
func (r role) seats() (seats []seat, err error) {
	open := role.contending
	switch r.Peer {
	case "":
		open = role.ours
	case etcdElection:
		open = role.observed
	case bareRedis:
		open = role.subscribed
	}
	for i, id := range strings.Split(r.ID, ",") {
		r := r
		r.ID = id
		s, err := open(r, r.Program+i*fleetPrograms < r.Candidates)
		if err != nil {
			return nil, err
		}
		seats = append(seats, s)
		if r.Program+i == 0 {
			s.hear()
			r.say("leads", nil)
		}
	}
	for i, s := range seats {
		if r.Program+i > 0 && r.hearing() > 1 {
			s.hear()
		}
	}
	return seats, nil
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

// report tells whenever a process hears.
func (s seat) report(r role) {
	for at := range s.heard {
		r.tell(line{ID: s.id, What: "heard", At: at})
	}
}

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

// serversCPU returns how much of the processors the servers have used that this process has started, without the programs
// of a fleet.
func serversCPU(t *testing.T, programs []*child) (sum time.Duration) {
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

	for _, p := range programs {
		delete(processes, strconv.Itoa(p.cmd.Process.Pid))
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
