package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
)

// FuzzEndpoint checks that errors show no part of an address that was not understood, since it may contain a password.
func FuzzEndpoint(f *testing.F) {
	for _, e := range []string{"", "a", "a:2379", "http://a", "https://a:2379/", "ftp://a", "http://u:open-sesame@a", "http://[::1", "://", "http://a/b?c#d", "http://\x7f", "unix:///x", "HTTP://a"} {
		f.Add(e, true)
		f.Add(e, false)
	}
	f.Fuzz(func(t *testing.T, e string, secure bool) {
		address, err := endpointURL(e, secure)
		if err != nil {
			if err := backend.CheckText("error", err.Error(), 1000, false); err != nil {
				t.Error(err)
			}
			if strings.Contains(err.Error(), "open-sesame") {
				t.Errorf("%v shows a password", err)
			}
			return
		}
		if !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") || secure && strings.HasPrefix(address, "http://") || strings.Contains(address, "@") {
			t.Errorf("%q becomes %q", e, address)
		}
		if again, err := endpointURL(address, secure); err != nil || again != address {
			t.Errorf("%q becomes %q, and that %q, %v", e, address, again, err)
		}
	})
}

// A server that hangs costs a quarter of the call's time.
func TestAServerThatHangsIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		var runs atomic.Int32
		began := time.Now()
		got, err := firstAnswer(ctx, func(ctx context.Context) (int32, error) {
			run := runs.Add(1)
			if run == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return run, nil
		})
		if took := time.Since(began); got != 2 || err != nil || took != 2*time.Second {
			t.Errorf("%d, %v after %v; want the second answer after 2s", got, err, took)
		}
	})
}

func TestAFinalErrorEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final, runs := fmt.Errorf("%w: final", backend.ErrDenied), 0
		_, err := firstAnswer(t.Context(), func(context.Context) (int, error) { runs++; return 0, final })
		if err != final || runs != 1 {
			t.Errorf("%v after %d runs; want one", err, runs)
		}
	})
}

// The error of a late call may contain a token that was replaced meanwhile.
func TestReplacedTokensStayOutOfErrors(t *testing.T) {
	d := &driver{login: &login{username: "app"}}
	d.login.password.Set("open sesame")
	for _, token := range []string{"first.token", "", "second.token", "third.token"} {
		d.login.token.Set(token)
	}
	err := d.fail(errors.New("refused: first.token second.token third.token open sesame"))
	for _, secret := range []string{"first.token", "second.token", "third.token", "open sesame"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q shows %q", err, secret)
		}
	}
	if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("%v has lost its class", err)
	}
}

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
