package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// guardedArg holds the configuration of a member with a guard.
const guardedArg = "GO_ELECTION_TEST_GUARDED"

// guardedMain is the program of a member that a configuration describes.
func guardedMain(arg string) {
	os.Unsetenv(guardedArg)
	var text string
	err := json.Unmarshal([]byte(arg), &text)
	var c *config.Config
	if err == nil {
		c, err = config.Parse("test.yaml", []byte(text), config.Options{Environ: []string{}})
	}
	var m *election.Manager
	if err == nil {
		m, err = c.Open(context.Background())
	}
	var e *election.Election
	if err == nil {
		e, err = m.Join("controller")
	}
	if err == nil {
		err = e.Lead(nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
	testbed.Say(e.Leading, func() string { leader, _, _ := e.Leader(); return leader.ID + " " })
	m.Close(context.Background())
	os.Exit(0)
}

// After kill -9 of a leader with a guard, the next one leads long before the TTL has passed.
func TestAKilledLeaderWithAGuardIsSucceededAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const ttl = 20 * time.Second
	start := func(id string) *testbed.Member {
		return f.Program(id, true, guardedArg, fmt.Sprintf("backend: kubernetes\nid: %s\nttl: %v\nguard: true\nkubernetes: {kubeconfig: %q, namespace: %s}\n", id, ttl, f.file, f.namespace))
	}
	leader := start("0")
	f.Leads(leader)
	var took []time.Duration
	for i := range 3 {
		next := start(fmt.Sprint(i + 1))
		next.Follows(leader.ID)
		killed := time.Now()
		leader.Kill()
		f.Leads(next)
		took = append(took, next.Led()[0].From.Sub(killed).Round(time.Millisecond))
		leader = next
	}
	t.Log("from kill -9 until the next leads:", took)
	for _, d := range took {
		if d > ttl/2 {
			t.Errorf("it took %v, with a TTL of %v", d, ttl)
		}
	}
	f.NeverTwo()
}
