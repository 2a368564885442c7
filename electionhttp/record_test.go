package electionhttp_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/lab/testbed"
)

// A counted backend counts calls of Members, and has a location.
type counted struct {
	backend.Backend
	reads atomic.Int64
}

func (b *counted) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	b.reads.Add(1)
	return b.Backend.Members(ctx, from, limit)
}

func (b *counted) Location() string { return "db1:3306/app\x1b" }

// candidateList lists the candidates of an answer: id, * for the leader, and address.
func candidateList(v map[string]any) string {
	list, _ := v["record"].(map[string]any)["candidates"].([]any)
	var all []string
	for _, c := range list {
		c := c.(map[string]any)
		mark := map[bool]string{true: "*"}[c["leads"].(bool)]
		all = append(all, fmt.Sprintf("%v%s@%v", c["id"], mark, c["address"]))
	}
	return strings.Join(all, " ")
}

func TestAnElectionListsItsCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		b := &counted{Backend: store.Backend()}
		h := handler(t, managerOn(t, b, election.Options{Observer: true}, false, "job"), electionhttp.Options{})
		manager(t, store, election.Options{ID: "z", Address: "10.0.0.1:80"}, true, "job")
		time.Sleep(2 * time.Second) // of virtual time
		if got := candidateList(read(t, h, "/elections/job")); got != "z*@10.0.0.1:80" {
			t.Errorf("with one process the candidates are %q, want only the leader: an observer is not a candidate", got)
		}
		killed := store.Backend()
		testbed.NoError(t, killed.Announce(t.Context(), backend.Member{Candidate: backend.Candidate{ID: "k", Nonce: backend.NewNonce()}, Elections: "job\n", TTL: 10 * time.Second}))
		manager(t, store, election.Options{ID: "a", Address: "10.0.0.2:80"}, true, "job")
		manager(t, store, election.Options{ID: "b"}, true, "another job")
		manager(t, store, election.Options{ID: "c"}, false, "job")
		time.Sleep(2 * time.Second)
		if got := candidateList(read(t, h, "/elections/job")); got != "z*@10.0.0.1:80 a@10.0.0.2:80 k@" {
			t.Errorf("the candidates are %q, want the leader first and then by id", got)
		}
		time.Sleep(25 * time.Second)
		if got := candidateList(read(t, h, "/elections/job")); got != "z*@10.0.0.1:80 a@10.0.0.2:80" {
			t.Errorf("the candidates are %q, want them without k, which has not announced itself for two TTLs", got)
		}
		before := b.reads.Load()
		for range 20 {
			read(t, h, "/elections/job")
			read(t, h, "/elections")
		}
		if n := b.reads.Load() - before; n > 1 {
			t.Errorf("40 requests within a second have read the members %d times, want 1 at most", n)
		}
		b.Close()
		time.Sleep(2 * time.Second)
		if v := read(t, h, "/elections/job"); v["record"] != nil {
			t.Errorf("the record while the store does not answer: %v, want null: it is unknown", v["record"])
		}
	})
}

func TestTheStatusHasTheStoresLocation(t *testing.T) {
	m := managerOn(t, &counted{Backend: memory.New().Backend()}, election.Options{ID: "a"}, false, "x")
	for _, path := range []string{"/elections", "/elections/x"} {
		if got := read(t, handler(t, m, electionhttp.Options{}), path)["store"].(map[string]any)["location"]; got != "db1:3306/app?" && got != "db1:3306/app\ufffd" {
			t.Errorf("%s: the store is at %q, want db1:3306/app", path, got)
		}
	}
}

func TestAVacantElectionWithoutCandidatesIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		observer := manager(t, store, election.Options{Observer: true}, false, "crashed", "led", "never", "retired")
		h := handler(t, observer, electionhttp.Options{})
		long := manager(t, store, election.Options{ID: "a"}, true, "led", "retired")
		crash := store.Backend()
		managerOn(t, crash, election.Options{ID: "b"}, true, "crashed")
		check := func(when, want string, idle float64, h *electionhttp.Handler) {
			t.Helper()
			read(t, h, "/elections") // makes the handler read the members
			time.Sleep(2 * time.Second)
			v := read(t, h, "/elections?order=attention")
			if got := strings.Join(names(v), " "); got != want {
				t.Errorf("%s: the order is %q, want %q", when, got, want)
			}
			if got := v["counts"].(map[string]any)["idle"]; got != idle {
				t.Errorf("%s: %v are idle, want %v", when, got, idle)
			}
		}
		time.Sleep(2 * time.Second) // of virtual time
		check("while all have a leader except one that never had one", "crashed led retired never", 1, h)
		testbed.NoError(t, long.Election("retired").Leave(context.Background()))
		time.Sleep(5 * time.Second) // by now its process has announced that it campaigns for one election less
		check("seconds after the leader of retired has left it", "crashed led never retired", 2, h)
		crash.Close()
		testbed.NoError(t, long.Close(context.Background()))
		time.Sleep(time.Minute)
		check("a minute after the last process has crashed", "crashed led never retired", 3, h)
		later := manager(t, store, election.Options{Observer: true}, false, "led", "never")
		time.Sleep(2 * time.Second)
		fresh := handler(t, later, electionhttp.Options{})
		if got := read(t, fresh, "/elections")["counts"].(map[string]any)["idle"]; got != 2.0 {
			t.Errorf("at the first request of all %v are idle, want 2", got)
		}
		check("for an observer that has started later", "led never", 2, fresh)
		time.Sleep(2 * time.Hour)
		check("hours after the crash", "crashed led never retired", 4, h)
	})
}
