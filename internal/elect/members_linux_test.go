package elect

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A process that was killed is no longer a member after two of its TTLs, though it had a guard. One that has ended in
// order is none at once.
func TestMembersThatAreGoneVanish(t *testing.T) {
	t.Parallel()
	for store, env := range map[string][]string{"redis": on(t, "redis", "ELECTION_TTL=6s"), "file": onFiles(t, "ELECTION_TTL=6s")} {
		for end, c := range map[string]struct {
			sig    syscall.Signal
			within time.Duration // in TTLs
		}{"killed": {syscall.SIGKILL, 3}, "ended": {syscall.SIGTERM, 1}} {
			t.Run(store+", "+end, func(t *testing.T) {
				t.Parallel()
				const ttl = 6 * time.Second
				job := "job-" + end
				first := start(t, env, "run", job, "--id", "one", "--", "sleep", "300")
				first.says("elect: leads")
				start(t, env, "run", job, "--id", "two", "--", "sleep", "300")
				shows := func(member string, want bool) time.Duration {
					t.Helper()
					began := time.Now()
					testbed.Eventually(t, patience, fmt.Sprintf("%s is a member: %v", member, want), func() error {
						out, _ := call(t, env, "status", job)
						if _, members, _ := strings.Cut(out, "members"); strings.Contains(members, " "+member) != want {
							return errors.New(out)
						}
						return nil
					})
					return time.Since(began)
				}
				shows("two", true)
				first.Process.Signal(c.sig)
				if took := shows("one", false); took > c.within*ttl {
					t.Errorf("it was a member for %v, with a TTL of %v", took, ttl)
				} else {
					t.Logf("it was a member for %v", took)
				}
			})
		}
	}
}
