//go:build linux || darwin

package file_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/file"
)

// harms are what operators and programs do to the files of an election that has a leader.
var harms = []struct {
	what   string
	do     func(dir string) error
	locked bool // the locked file is still at its path, so no other process can lead
}{
	{"the lock is removed", func(dir string) error { return os.Remove(dir + "/jobs.lock") }, false},
	{"lock and record are removed", func(dir string) error { return remove(dir, "jobs.") }, false},
	{"everything is removed", func(dir string) error { return remove(dir, "") }, false},
	{"all but the register is removed", func(dir string) error { return remove(dir, "jobs") }, false},
	{"the lock is replaced by a copy", func(dir string) error { return copyOver(dir+"/jobs.lock", nil) }, false},
	{"the lock is replaced by an empty file", func(dir string) error { return copyOver(dir+"/jobs.lock", []byte{}) }, false},
	{"the lock is removed and the record damaged", func(dir string) error {
		os.WriteFile(dir+"/jobs.json", []byte("{"), 0o600)
		return os.Remove(dir + "/jobs.lock")
	}, false},
	{"lock and record are replaced by copies", func(dir string) error {
		copyOver(dir+"/jobs.json", nil)
		return copyOver(dir+"/jobs.lock", nil)
	}, false},
	{"the record is removed", func(dir string) error { return os.Remove(dir + "/jobs.json") }, true},
	{"the record is damaged", func(dir string) error { return os.WriteFile(dir+"/jobs.json", []byte("{"), 0o600) }, true},
	{"the lock's text is damaged", func(dir string) error { return os.Truncate(dir+"/jobs.lock", 0) }, true},
}

func remove(dir, prefix string) error {
	all, err := os.ReadDir(dir)
	for _, f := range all {
		if strings.HasPrefix(f.Name(), prefix) {
			os.Remove(filepath.Join(dir, f.Name()))
		}
	}
	return err
}

// copyOver replaces a file by a new one with the given text, or with the same text if that is nil.
func copyOver(path string, text []byte) (err error) {
	if text == nil {
		if text, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	if err := os.WriteFile(path+"~", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+"~", path)
}

// While the leader may trust its lease, no other process gets it. The leader's next renewal
// is refused, and terms grow. The leader also holds another election, whose files stay or
// are removed.
func TestFilesDeletedUnderALeaderFreeNothing(t *testing.T) {
	for _, harm := range harms {
		t.Run(strings.ReplaceAll(harm.what, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newDir(t)
				a, b := open(t, dir, "a"), open(t, dir, "b")
				a.win("other")
				held := a.win("jobs")
				time.Sleep(ttl / 3)
				if got := a.renew(held); got.Outcome != backend.Granted {
					t.Fatalf("renewal before any harm: %+v", got)
				}
				trusted := time.Now().Add(ttl) // a clock margin later than it really is
				if err := harm.do(dir); err != nil {
					t.Fatal(err)
				}
				var won backend.Answer
				for seen, since := (backend.Lease{}), time.Now(); time.Now().Before(trusted.Add(2 * time.Minute)); time.Sleep(100 * time.Millisecond) {
					now := b.observe("jobs")
					if !now.Unchanged(seen) {
						seen, since = now, time.Now()
					}
					if now.ObserveFor < 0 || time.Since(since) < now.ObserveFor { // a bid that comes too early, as a faulty manager could make it
						if got := b.bid(backend.Lease{Election: "jobs", Term: now.Term, Version: now.Version}); got.Outcome == backend.Granted && time.Now().Before(trusted) {
							t.Fatalf("granted %v before the leader's trust ends", time.Until(trusted))
						}
						continue
					}
					if won = b.bid(now); won.Outcome == backend.Granted {
						break
					}
				}
				switch {
				case harm.locked && won.Outcome == backend.Granted:
					t.Error("expected no other leader while a process has the lock")
				case !harm.locked && won.Outcome != backend.Granted:
					t.Error("expected the lease to be granted in the end")
				case won.Outcome == backend.Granted && time.Now().Before(trusted):
					t.Errorf("granted %v before the leader's trust ends", time.Until(trusted))
				case won.Outcome == backend.Granted && won.Term <= held.Term:
					t.Errorf("expected a term above %d, got %d", held.Term, won.Term)
				}
				got := a.renew(held)
				if damaged := harm.what == "the lock's text is damaged"; !damaged && got.Outcome != backend.Refused {
					t.Errorf("expected the leader's renewal to be refused, got %v", got.Outcome)
				} else if !damaged && got.Err == nil && won.Outcome != backend.Granted {
					t.Error("expected the refusal to give the reason")
				}
			})
		})
	}
}

// The leader is dead, so no process trusts the lease, and none need wait.
func TestFilesDeletedAfterADeathCostNoTime(t *testing.T) {
	for _, harm := range harms {
		t.Run(strings.ReplaceAll(harm.what, " ", "_"), func(t *testing.T) {
			dir := newDir(t)
			a, b := open(t, dir, "a"), open(t, dir, "b")
			held := a.win("jobs")
			file.Die(a.Backend)
			if err := harm.do(dir); err != nil {
				t.Fatal(err)
			}
			if now := b.win("jobs"); now.Term <= held.Term {
				t.Errorf("expected a term above %d, got %d", held.Term, now.Term)
			}
		})
	}
}

// Other elections in the directory have leaders.
func TestANewElectionNeedNotWait(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir, "a"), open(t, dir, "b")
	a.win("old")
	b.win("new")
	a.win("newer")
}

// A restart leaves the files as they are, without locks. After a loss of power the newest
// text may be missing.
func TestARestartOfTheMachineKeepsTerms(t *testing.T) {
	dir := newDir(t)
	future := uint64(time.Now().Add(1000 * time.Hour).UnixMicro()) // terms ahead of the clock
	var last uint64
	next := func(what string) {
		t.Helper()
		c := open(t, dir, "c")
		defer file.Die(c.Backend)
		got, err := c.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: c.me, TTL: ttl, MinTerm: future, Expected: c.observe("jobs")}})
		if err != nil || got[0].Outcome != backend.Granted {
			t.Fatalf("%s: expected a lease that no process holds to be free, got %+v, %v", what, got, err)
		}
		if got[0].Term <= last {
			t.Errorf("%s: expected a term above %d, got %d", what, last, got[0].Term)
		}
		last, future = got[0].Term, 0
	}
	next("first")
	next("as it was")
	record, err := os.ReadFile(dir + "/jobs.json")
	if err != nil {
		t.Fatal(err)
	}
	next("again")
	os.WriteFile(dir+"/jobs.json", record, 0o600)
	next("an older record came back, and the lock file has a greater term")
	os.Truncate(dir+"/jobs.lock", 0)
	next("the lock's text is lost")
	os.Truncate(dir+"/jobs.json", 0)
	next("the record is lost")
	os.Truncate(dir+"/ELECTIONS", int64(bytes.IndexByte(read(t, dir+"/ELECTIONS"), '\n')+3))
	next("the register is cut off")
	next("the register is mended")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Every kind of file, with many kinds of wrong text.
func TestHostileTextHarmsNoOtherElection(t *testing.T) {
	for _, text := range []string{
		"", "\x00", "{", "null", "[]", "{}", `{"layout":1}`, strings.Repeat("[", 1<<20), strings.Repeat("x", 1<<20),
		`{"layout":1,"election":"jobs","term":18446744073709551615,"heartbeat":"1","holder":{"id":"x","nonce":"y"},"ttl_ns":9223372036854775807,"lock":"x"}`,
		`{"layout":1,"election":"jobs","term":1,"heartbeat":"0","holder":{},"ttl_ns":-1,"history":[` + strings.Repeat(`{"term":1},`, 100) + `{}]}`,
		`{"election":"jobs","term":1,"kind":"depose","id":"` + "\u202e" + `"}`,
	} {
		dir := newDir(t)
		a, b := open(t, dir, "a"), open(t, dir, "b")
		a.win("jobs")
		healthy := a.win("healthy")
		nonce := backend.NewNonce()
		for _, name := range []string{"jobs.json", "jobs.request", string(nonce + ".member"), "zz.json", "%zz.json", "%.json", "~.json", strings.Repeat("a", 250) + ".json"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			l := b.observe("jobs")
			if clean := clean.Lease(l); clean != l {
				t.Errorf("%s with %.40q: expected clean text, got %+v", name, text, l)
			}
			if _, err := b.List(t.Context(), "", 100); err != nil {
				t.Errorf("%s with %.40q: list: %v", name, text, err)
			}
			if _, err := b.Members(t.Context(), "", 100); err != nil {
				t.Errorf("%s with %.40q: members: %v", name, text, err)
			}
			if got := a.renew(healthy); got.Outcome != backend.Granted {
				t.Errorf("%s with %.40q: another election's renewal: %+v", name, text, got)
			}
		}
	}
}
