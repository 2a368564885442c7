package elect

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A process that was killed is no longer a member after two of its TTLs, though it had a guard. One that has ended in
// order is none at once.
func TestMembersThatAreGoneVanish(t *testing.T) {
	t.Parallel()
	for store, vars := range map[string][]string{
		"redis": {"ELECTION_REDIS_ADDRESSES=" + testbed.SharedRedis(t).Addr(), "ELECTION_REDIS_PREFIX=gone-" + string(backend.NewNonce()[:8])},
		"file":  {"ELECTION_FILE_DIR=" + t.TempDir()},
	} {
		for end, c := range map[string]struct {
			sig    syscall.Signal
			within time.Duration // in TTLs
		}{"killed": {syscall.SIGKILL, 3}, "ended": {syscall.SIGTERM, 1}} {
			t.Run(store+", "+end, func(t *testing.T) {
				t.Parallel()
				const ttl = 6 * time.Second
				job := "job-" + end
				env := environ(t.TempDir(), append(vars, "ELECTION_BACKEND="+store, "ELECTION_TTL=6s")...)
				first := start(t, env, "run", job, "--id", "one", "--", "sleep", "300")
				first.says("elect: leads")
				start(t, env, "run", job, "--id", "two", "--", "sleep", "300")
				shows := func(member string, want bool) time.Duration {
					t.Helper()
					began := time.Now()
					testbed.Eventually(t, patience, fmt.Sprintf("%s is a member: %v", member, want), func() error {
						out, _ := call(t, env, "status", job, "--json")
						var s state
						if err := json.Unmarshal([]byte(out), &s); err != nil {
							return err
						}
						is := false
						for _, m := range s.Members {
							is = is || m.ID == member
						}
						if is != want {
							return fmt.Errorf("%s", strings.TrimSpace(out))
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
