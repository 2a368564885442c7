package electiontest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

// Whatever breaks the rule leaves goroutines behind. What the test has said of it is the last that one reads.
func TestABrokenRuleIsTheLastThingThatOneReads(t *testing.T) {
	const broken = "ELECTIONTEST_BROKEN"
	ends := map[string]func(t *testing.T, g *electiontest.Group){
		"work goes on under the next leader": func(t *testing.T, g *electiontest.Group) {
			a, b := g.Start("a"), g.Start("b")
			for _, p := range []*electiontest.Process{a, b} {
				e, err := p.Join("jobs")
				if err != nil {
					t.Fatal(err)
				}
				go e.Run(t.Context(), func(_ context.Context, lead *election.Leadership) error {
					g.Work(lead)
					select {} // it ignores its context
				})
			}
			first := g.Leader("jobs")
			first.Crash()
			g.Next("jobs", first)
			synctest.Wait()
		},
		"nobody leads": func(t *testing.T, g *electiontest.Group) {
			go func() { select {} }()
			g.Leader("jobs")
		},
		"it waits for ever": func(t *testing.T, g *electiontest.Group) {
			e, err := g.Start("a").Join("jobs")
			if err != nil {
				t.Fatal(err)
			}
			e.Lead(nil)
			<-make(chan int)
		},
	}
	rules := map[string]string{
		"work goes on under the next leader": "begins before that of term",
		"nobody leads":                       "not within",
		"it waits for ever":                  "still waits after 300h0m0s; the states are\na: \"jobs\" elected \"a\"",
	}
	if end := ends[os.Getenv(broken)]; end != nil {
		electiontest.Test(t, election.Options{TTL: 10 * time.Second}, end)
		return
	}

	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestABrokenRuleIsTheLastThingThatOneReads$", "-test.timeout=2m")
			cmd.Env = append(os.Environ(), broken+"="+name)
			out, err := cmd.CombinedOutput()
			_, after, found := strings.Cut(string(out), rule)
			if err == nil || !found {
				t.Fatalf("the test ended with %v, and did not say %q:\n%.3000s", err, rule, out)
			}
			if strings.Contains(after, "goroutine ") || strings.Count(after, "\n") > 8 {
				t.Errorf("rule violated: what a test says of a broken rule is the last that one reads. After it:\n%.3000s", after)
			}
		})
	}
}
