//go:build linux || darwin

package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
	for what, before := range map[string]func(dir string){
		"a directory without files": func(string) {},
		"a directory in which the election was released": func(dir string) {
			c := open(t, dir, "c")
			c.release(c.win("jobs"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir, switchTo := releases(t)
			switchTo("2")
			before(dir)
			switchTo("1")
			a := open(t, dir, "a")
			held := a.win("jobs")
			switchTo("2")
			b := open(t, dir, "b")
			seen := b.observe("jobs")
			if seen.ObserveFor != time.Minute {
				t.Errorf("while a leads in the other directory, b must watch the lease for %v, want the greatest TTL", seen.ObserveFor)
			}
			unwatched := seen
			unwatched.ObserveFor = 0
			if got := b.bid(unwatched); got.Outcome != backend.Refused {
				t.Fatalf("a bid of b without a watch: %v, want refused", got.Outcome)
			}
			if got := a.renew(held); got.Outcome != backend.Refused {
				t.Errorf("a renewal of a after the switch: %v, want refused", got.Outcome)
			}
			b.win("jobs")
		})
	}
}

// A link that is as it was for the greatest TTL costs no start anything.
func TestALinkThatStaysCostsNothing(t *testing.T) {
	dir, _ := releases(t)
	testbed.Eventually(t, time.Minute, "the link is older than the greatest TTL", func() error {
		if l := openWith(t, "a", file.Options{Dir: dir, MaxTTL: 50 * time.Millisecond}).observe("jobs"); l.ObserveFor != 0 {
			return fmt.Errorf("the lease must be watched for %v", l.ObserveFor)
		}
		return nil
	})
}
