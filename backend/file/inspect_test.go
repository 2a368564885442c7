//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func format(list []backend.Diagnostic) (text string) {
	for _, d := range list {
		text += d.String() + "\n"
	}
	return text
}

func inspect(t *testing.T, o Options) string {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	list, err := b.Inspect(t.Context(), 10*time.Second, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return format(list)
}

// value returns the path of the value.
func value(dir string) string {
	paths, _ := filepath.Glob(filepath.Join(dir, "leases-*.json"))
	return paths[0]
}

// An election was led in the directory, and then its files were changed.
func TestInspectReportsWhatWasDoneToADirectory(t *testing.T) {
	for what, x := range map[string]struct {
		harm   func(dir string) error
		maxTTL time.Duration
		want   string
	}{
		"nothing":                   {nil, 0, "leases: 0 of 8192 kB are used; the greatest TTL is 1m0s"},
		"the leases are gone":       {func(dir string) error { return os.Remove(value(dir)) }, 0, "WARNING leases: store unavailable: "},
		"another TTL is configured": {nil, 30 * time.Second, "max_ttl is 30s, and that of "},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "election")
			b, err := Open(Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			c := backend.Candidate{ID: "a", Nonce: backend.NewNonce()}
			seen, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: c, TTL: 10 * time.Second, Renew: 3 * time.Second, Expected: seen[0]}})
			if err != nil || got[0].Outcome != backend.Granted {
				t.Fatalf("expected the first bid to be granted, got %+v, %v", got, err)
			}
			defer Die(b)
			if x.harm != nil {
				if err := x.harm(dir); err != nil {
					t.Fatal(err)
				}
			}
			text := inspect(t, Options{Dir: dir, MaxTTL: x.maxTTL})
			for _, want := range []string{x.want, "directory: " + dir + " is on "} {
				if !strings.Contains(text, want) {
					t.Errorf("expected %q in:\n%s", want, text)
				}
			}
			if warned := strings.Contains(text, "WARNING leases"); warned != (what != "nothing") {
				t.Errorf("expected a warning if the directory was harmed, and only then:\n%s", text)
			}
		})
	}
}

func TestInspectFailsWithoutADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "election")
	b, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Inspect(t.Context(), time.Second, time.Second); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("expected %v, got %v", backend.ErrUnavailable, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Inspect(ended, time.Second, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("expected %v, got %v", context.Canceled, err)
	}
}
