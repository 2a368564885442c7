//go:build linux

package chaos

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/lab/testbed"
)

func TestMain(m *testing.M) {
	config.RunGuard()
	if role := os.Getenv(RoleVariable); role != "" {
		if err := Campaign(role); err != nil {
			log.Fatal(err)
		}
		return
	}
	for name, value := range map[string]string{ // of members that use S3, which inherit them
		"AWS_ACCESS_KEY_ID": testbed.S3AccessKey, "AWS_SECRET_ACCESS_KEY": testbed.S3SecretKey,
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		os.Setenv(name, value)
	}
	os.Exit(m.Run())
}

// The file of the figures, and the page with their totals.
const (
	figures = "../../docs/chaos.json"
	page    = "../../docs/chaos.md"
)

var (
	histories = flag.Int("histories", 0, "run this many histories of each backend and add them to the figures")
	length    = flag.Duration("length", 30*time.Second, "length of a history")
	only      = flag.String("backend", "", "run only this backend, or several, separated by commas")
	fault1    = flag.String("fault", "", "inject only this fault")
	seed      = flag.Uint64("seed", 0, "with -backend and -fault: run this one history again")
)

// checkHistory checks a history, and keeps it as a file if it breaks a rule.
func checkHistory(t *testing.T, h *History) (broke error) {
	t.Helper()
	if broke = Check(h); broke != nil {
		trace := filepath.Join(os.TempDir(), "chaos-"+strings.NewReplacer("/", "-", " ", "-", ",", "").Replace(h.Name())+".json")
		text, err := json.Marshal(h)
		testbed.NoError(t, err)
		testbed.NoError(t, os.WriteFile(trace, text, 0o600))
		t.Errorf("%s: %v\nrun it again with -backend %q -fault %q -seed %d; the history is in %s", h.Name(), broke, h.Backend, h.Fault, h.Seed, trace)
	}
	t.Logf("%s: %v, %d lines, %d of %d faults hit a leader, %d late writes, %d gaps", h.Name(),
		(h.To - h.From).Round(time.Millisecond), len(h.Lines), h.Bites(), len(h.Bands), h.Late, len(h.Gaps()))
	return broke
}

// TestOneHistory runs a history again, by the backend, fault and seed of a report.
func TestOneHistory(t *testing.T) {
	if *seed == 0 {
		t.Skip("needs -backend, -fault and -seed")
	}
	checkHistory(t, Run(t, Sites[*only](t), *fault1, *seed, *length))
}

// TestChaos runs many histories and adds them to the figures. It begins with the faults that have the fewest histories.
func TestChaos(t *testing.T) {
	if *histories == 0 {
		t.Skip("needs -histories")
	}
	kept, err := ReadFigures(figures)
	testbed.NoError(t, err)
	var mu sync.Mutex
	var all []*History
	began := time.Now()
	t.Run("histories", func(t *testing.T) {
		for round := range *histories {
			for _, backend := range sorted(Sites) {
				if *only != "" && !strings.Contains(","+*only+",", ","+backend+",") {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d", backend, round+1), func(t *testing.T) {
					t.Parallel()
					s := Sites[backend](t)
					mu.Lock()
					name := *fault1
					if name == "" {
						name = kept.leastTested(s)
					}
					if _, has := s.faults[name]; !has {
						mu.Unlock()
						t.Skipf("%s has no fault %q", backend, name)
					}
					f := kept.Of(backend, name)
					f.Seed++ // so leastTested chooses other faults next
					n := f.Seed
					mu.Unlock()
					h := Run(t, s, name, n, *length)
					broke := checkHistory(t, h)
					mu.Lock()
					defer mu.Unlock()
					all = append(all, h)
					kept.Add(h, broke != nil)
					if err := kept.Write(figures); err != nil {
						t.Error(err)
					}
				})
			}
		}
	})
	testbed.NoError(t, kept.WriteInto(page))
	for _, h := range all {
		if h.Fault == "kill -9" && h.Late > 0 {
			t.Errorf("%s: %d late writes of processes that had ended", h.Name(), h.Late)
		}
		// Without late writes no fence was needed, and the test proves nothing about them.
		if h.TakesOver && h.Fault == longPause && kept.Of(h.Backend, h.Fault).Late == 0 {
			t.Errorf("%s: no write was late: the pauses had no effect", h.Name())
		}
	}
	t.Logf("%d histories in %v", len(all), time.Since(began).Round(time.Second))
}

// leastTested returns the fault of a site with the fewest histories.
func (f Figures) leastTested(s *Site) string {
	seeds := map[string]uint64{}
	for _, l := range f {
		if l.Backend == s.Backend {
			seeds[l.Fault] = l.Seed
		}
	}
	return slices.MinFunc(sorted(s.faults), func(a, b string) int { return cmp.Compare(seeds[a], seeds[b]) })
}

// short has the histories of every full test run: two for each backend.
var short = map[string][]string{
	"file":                {longPause, "kill -9"},
	"manual":              {longPause, "kill -9"},
	"mysql on MariaDB":    {longPause, "server killed"},
	"mysql on MySQL":      {longPause, "answers lost"},
	"mysql on MariaDB x2": {"failover, writes lost", "failover, a grant lost"},
	"postgres":            {longPause, "row locked"},
	"postgres x2":         {"failover, writes lost", "failover, a grant lost"},
	"redis":               {longPause, "server killed"},
	"redis x2":            {"failover, and back", "failover, a grant lost"},
	"redis x2 waits":      {"failover, old master goes on", "kill -9"},
	"etcd":                {longPause, "server stopped, long"},
	"s3":                  {longPause, "server killed"},
	"consul":              {longPause, "cut off"},
	"kubernetes":          {longPause, "etcd killed"},
	"curator":             {longPause, "held back"},
	"mysqltable":          {longPause, "rights revoked"},
	"migration":           {"kill -9", nextStage},
	"zookeeper":           {longPause, "server killed"},
	"postgres guarded":    {"kill -9", guardStopped},
}

// TestTwoShortHistoriesOfEachBackend runs real processes on real servers. Pauses that
// outlast the lease must cause a late write, which a fence would refuse.
func TestTwoShortHistoriesOfEachBackend(t *testing.T) {
	var mu sync.Mutex
	hits, late := map[string]int{}, 0
	few := make(chan struct{}, 4) // a small machine has no room for more
	t.Run("histories", func(t *testing.T) {
		for _, backend := range sorted(short) {
			for _, name := range short[backend] {
				t.Run(backend+", "+name, func(t *testing.T) {
					t.Parallel()
					few <- struct{}{}
					t.Cleanup(func() { <-few })
					h := Run(t, Sites[backend](t), name, 1, 8*time.Second)
					checkHistory(t, h)
					mu.Lock()
					defer mu.Unlock()
					hits[backend] += h.Bites()
					late += h.Late
				})
			}
		}
	})
	if t.Failed() || testing.Short() {
		return
	}
	for backend, n := range hits {
		if n == 0 {
			t.Errorf("%s: no fault hit a leader: the histories prove nothing", backend)
		}
	}
	if late == 0 {
		t.Error("no write was late: the pauses had no effect")
	}
}
