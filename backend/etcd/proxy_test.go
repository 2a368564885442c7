package etcd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// A proxy that the environment names is used for members on other machines, so an error names it, without its password. A
// process reads these variables once.
func TestAnErrorNamesTheProxyOfTheEnvironment(t *testing.T) {
	const child = "GO_ELECTION_TEST_PROXY"
	if os.Getenv(child) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), child+"=1", "HTTPS_PROXY=http://app:canary7f3a@127.0.0.1:1", "NO_PROXY=near.invalid")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	for endpoint, named := range map[string]bool{"far.invalid:2379": true, "near.invalid:2379": false, "127.0.0.1:1": false} {
		b, err := Open(Options{Endpoints: []string{endpoint}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
		if !errors.Is(err, backend.ErrUnavailable) || strings.Contains(err.Error(), "the proxy 127.0.0.1:1 (HTTPS_PROXY") != named || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v; want the proxy in it: %v", endpoint, err, named)
		}
	}
}
