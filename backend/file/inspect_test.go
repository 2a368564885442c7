//go:build linux || darwin

package file_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/lab/testbed"
)

// Somebody leads in the directory, and then its files are changed.
func TestInspectReportsWhatWasDoneToADirectory(t *testing.T) {
	for what, x := range map[string]struct {
		harm   func(dir string) error
		maxTTL time.Duration
		want   string
	}{
		"nothing":                   {nil, 0, "leases: 0 of 8192 kB are used; the greatest TTL is 1m0s"},
		"the leases are gone":       {func(dir string) error { return remove(dir, "leases-") }, 0, "WARNING leases: store unavailable: "},
		"another TTL is configured": {nil, 30 * time.Second, "max_ttl is 30s, and that of "},
	} {
		t.Run(what, func(t *testing.T) {
			dir := newDir(t)
			open(t, dir, "a").Leads("jobs")
			if x.harm != nil {
				testbed.NoError(t, x.harm(dir))
			}
			list, err := openWith(t, "b", file.Options{Dir: dir, MaxTTL: x.maxTTL}).Inspect(t.Context(), ttl, ttl/3)
			testbed.NoError(t, err)
			text := ""
			for _, d := range list {
				text += d.String() + "\n"
			}
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
	dir := newDir(t)
	b := open(t, dir, "b")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Inspect(ended, time.Second, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("expected %v, got %v", context.Canceled, err)
	}
	testbed.NoError(t, os.RemoveAll(dir))
	if _, err := b.Inspect(t.Context(), time.Second, time.Second); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("expected %v, got %v", backend.ErrUnavailable, err)
	}
}
