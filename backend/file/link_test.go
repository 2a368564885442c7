//go:build linux || darwin

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/lab/testbed"
)

// releases makes two directories of one application, and a link to the first of them, as tools for deployment do.
// dir leads through that link, and over another one.
func releases(t *testing.T) (dir string, switchTo func(release string)) {
	t.Helper()
	base := t.TempDir()
	for _, release := range []string{"1", "2"} {
		if err := os.MkdirAll(filepath.Join(base, "releases", release, "election"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	switchTo = func(release string) {
		t.Helper()
		link := filepath.Join(base, "latest")
		if err := errors.Join(os.Symlink("releases/"+release, link+".new"), os.Rename(link+".new", link)); err != nil {
			t.Fatal(err)
		}
	}
	switchTo("1")
	if err := os.Symlink("./latest", filepath.Join(base, "current")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(base, "current", "election"), switchTo
}

// A process that starts after the switch finds an election that nobody leads there, or that somebody led once. It must
// wait until the leader in the other directory has found out.
func TestALinkThatWasSwitchedFreesNothing(t *testing.T) {
	for what, before := range map[string]func(t *testing.T, dir string){
		"a directory without files": func(*testing.T, string) {},
		"a directory in which the election was released": func(t *testing.T, dir string) {
			c := open(t, dir, "c")
			c.release(c.eventually(2 * time.Minute))
			file.Die(c.Backend)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, switchTo := releases(t)
				switchTo("2")
				before(t, dir)
				switchTo("1")
				a := open(t, dir, "a")
				a.eventually(2 * time.Minute)
				held := a.observe("jobs")
				switchTo("2")
				b := open(t, dir, "b")
				if _, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}}); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "link") {
					t.Errorf("a reading while a may lead in the other directory: %v", err)
				}
				if got, err := b.try(backend.Lease{Election: "jobs"}); err == nil {
					t.Fatalf("a bid of b: %v", got.Outcome)
				}
				if got, err := a.Renew(t.Context(), []backend.Held{held.Held()}); err == nil && got[0].Outcome == backend.Granted {
					t.Error("a renewal of a after the switch is granted")
				}
				if won := b.eventually(2 * time.Minute); won.Term == 0 {
					t.Error("b is granted nothing after the greatest TTL")
				}
			})
		})
	}
}

// A link that is as it was for the greatest TTL costs no start anything.
func TestALinkThatStaysCostsNothing(t *testing.T) {
	dir, _ := releases(t)
	testbed.Eventually(t, time.Minute, "the link is older than the greatest TTL", func() error {
		a := openWith(t, "a", file.Options{Dir: dir, MaxTTL: 50 * time.Millisecond})
		_, err := a.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		return err
	})
}
