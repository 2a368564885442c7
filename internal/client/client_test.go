package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
)

// FuzzEndpoint checks that errors show no part of an address that was not understood, since
// it may contain a password.
func FuzzEndpoint(f *testing.F) {
	for _, e := range []string{"", "a", "a:2379", "http://a", "https://a:2379/", "ftp://a", "http://u:open-sesame@a", "http://[::1", "://", "http://a/b?c#d", "http://\x7f", "unix:///x", "HTTP://a"} {
		f.Add(e, true)
		f.Add(e, false)
	}
	f.Fuzz(func(t *testing.T, e string, secure bool) {
		address, err := Endpoint(e, secure)
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
		if again, err := Endpoint(address, secure); err != nil || again != address {
			t.Errorf("%q becomes %q, and that %q, %v", e, address, again, err)
		}
	})
}

// A server that hangs costs a quarter of the call's time.
func TestAHangingServerIsHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		var runs atomic.Int32
		began := time.Now()
		got, err := Hedged(ctx, func(error) bool { return true }, func(ctx context.Context) (int32, error) {
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

func TestAFinalErrorEndsAHedgedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final, runs := errors.New("final"), 0
		_, err := Hedged(t.Context(), func(error) bool { return false }, func(context.Context) (int, error) { runs++; return 0, final })
		if err != final || runs != 1 {
			t.Errorf("%v after %d runs; want one", err, runs)
		}
	})
}

func TestEarlierSecretsAreRemembered(t *testing.T) {
	var s Secret
	for _, v := range []string{"a", "b", "", "c"} {
		s.Set(v)
	}
	if got := s.All(); !slices.Equal(got, []string{"c", "a", "b"}) {
		t.Errorf("secrets %q", got)
	}
}
