//go:build linux || darwin

package file_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
)

// backup copies all files of a directory. The function that it returns puts back the named
// ones as tar and rsync do: as new files under the old names. It removes a named file that
// the backup does not have.
func backup(t *testing.T, dir string) (restore func(names ...string)) {
	t.Helper()
	texts := map[string][]byte{}
	all, err := os.ReadDir(dir)
	for _, f := range all {
		texts[f.Name()] = read(t, filepath.Join(dir, f.Name()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(names ...string) {
		t.Helper()
		for _, name := range names {
			path, err := filepath.Join(dir, name), error(nil)
			if text, had := texts[name]; had {
				err = copyOver(path, text)
			} else {
				err = os.Remove(path)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// replaceDir puts another directory at the path, with the files of jobs that a backup has.
func replaceDir(t *testing.T, dir string, restore func(names ...string)) {
	t.Helper()
	if err := errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	restore("jobs.json", "jobs.lock", "ELECTIONS")
}

// histories end with a lease of jobs that a has just been granted or has just renewed,
// while the files say something else.
var histories = []struct {
	what string
	run  func(t *testing.T, dir string, a, b *client) backend.Lease
}{
	{"a vacant record is put back", func(t *testing.T, dir string, a, b *client) backend.Lease {
		a.release(a.win("jobs"))
		restore := backup(t, dir)
		held := a.win("jobs")
		restore("jobs.json", "jobs.lock", "ELECTIONS")
		return held
	}},
	{"a record with a shorter TTL is put back", func(t *testing.T, dir string, a, b *client) backend.Lease {
		bid := backend.Bid{Election: "jobs", Candidate: a.me, TTL: time.Second, Renew: time.Second / 3, Expected: a.observe("jobs")}
		short, err := a.Acquire(t.Context(), []backend.Bid{bid})
		if err != nil || short[0].Outcome != backend.Granted {
			t.Fatal(short, err)
		}
		restore := backup(t, dir)
		a.release(short[0].Lease)
		held := a.win("jobs")
		restore("jobs.json", "jobs.lock")
		return held
	}},
	{"a register from before its first leader is put back", func(t *testing.T, dir string, a, b *client) backend.Lease {
		a.release(a.win("other"))
		restore := backup(t, dir)
		held := a.win("jobs")
		restore("jobs.json", "jobs.lock", "ELECTIONS", "other.json", "other.lock")
		return held
	}},
	{"the register is made again by another leader", func(t *testing.T, dir string, a, b *client) backend.Lease {
		held := a.win("jobs")
		b.release(b.win("other"))
		os.Remove(dir + "/ELECTIONS")
		b.release(b.win("other"))
		if got := a.renew(held); got.Outcome != backend.Granted {
			t.Fatal(got)
		}
		remove(dir, "jobs.")
		return held
	}},
	{"all is removed and the register made again before a renewal", func(t *testing.T, dir string, a, b *client) backend.Lease {
		b.release(b.win("other"))
		held := a.win("jobs")
		remove(dir, "jobs.")
		os.Remove(dir + "/ELECTIONS")
		b.release(b.win("other"))
		return held
	}},
	{"another register has the same inode and size", func(t *testing.T, dir string, a, b *client) backend.Lease {
		b.release(b.win("aaaa"))
		known := read(t, dir+"/ELECTIONS")
		b.observe("unknown") // makes it read the register, too
		held := a.win("jobs")
		text := strings.Replace(string(known), "\naaaa\n", "\njobs\n", 1)
		write := func() time.Time {
			info, err := os.Stat(dir + "/ELECTIONS")
			if err := errors.Join(err, os.WriteFile(dir+"/ELECTIONS", []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			return info.ModTime()
		}
		write()
		for first := write(); !write().After(first); { // file times have a granularity of some milliseconds
		}
		remove(dir, "jobs.")
		return held
	}},
	{"an older lock comes back without a record", func(t *testing.T, dir string, a, b *client) backend.Lease {
		a.release(a.win("jobs"))
		os.Rename(dir+"/jobs.lock", dir+"/jobs.lock.bak")
		held := a.win("jobs")
		os.Rename(dir+"/jobs.lock.bak", dir+"/jobs.lock")
		os.Remove(dir + "/jobs.json")
		return held
	}},
	{"the directory is replaced by a copy", func(t *testing.T, dir string, a, b *client) backend.Lease {
		held := a.win("jobs")
		replaceDir(t, dir, backup(t, dir))
		return held
	}},
	{"the directory is replaced by an empty one", func(t *testing.T, dir string, a, b *client) backend.Lease {
		held := a.win("jobs")
		replaceDir(t, dir, func(...string) {})
		return held
	}},
}

// A challenger must observe the lease for the greatest TTL, because the leader may trust
// it. After that the lease is granted, and the leader has lost it.
func TestRestoredFilesFreeNothing(t *testing.T) {
	for _, history := range histories {
		t.Run(strings.ReplaceAll(history.what, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newDir(t)
				a, b := open(t, dir, "a"), open(t, dir, "b")
				held := history.run(t, dir, a, b)
				seen := b.observe("jobs")
				if seen.ObserveFor < ttl {
					t.Errorf("the lease is free after %v, but its leader trusts it for %v: %+v", seen.ObserveFor, ttl, seen)
				}
				if got := b.bid(backend.Lease{Election: "jobs", Term: seen.Term, Version: seen.Version}); got.Outcome == backend.Granted {
					t.Fatalf("two leaders: granted at once, term %d", got.Term)
				}
				time.Sleep(time.Minute + time.Second) // the greatest TTL, and a little
				now := b.observe("jobs")
				if now.ObserveFor > 0 && !now.Unchanged(seen) {
					t.Fatalf("expected the lease to stay unchanged while it was observed, got %+v after %+v", now, seen)
				}
				if won := b.bid(now); won.Outcome != backend.Granted || won.Term <= held.Term {
					t.Errorf("expected a term above %d after the greatest TTL, got %v, term %d", held.Term, won.Outcome, won.Term)
				}
				if got := a.renew(held); got.Outcome != backend.Refused {
					t.Errorf("expected the old leader's renewal to be refused, got %v", got.Outcome)
				}
			})
		})
	}
}

// After that time a new election need not wait, although others have leaders.
func TestANewRegisterIsCompleteAfterTheGreatestTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newDir(t)
		a, b := open(t, dir, "a"), open(t, dir, "b")
		held := a.win("jobs")
		os.Remove(dir + "/ELECTIONS")
		for began := time.Now(); time.Since(began) <= time.Minute+ttl/3; time.Sleep(ttl / 3) {
			if got := a.renew(held); got.Outcome != backend.Granted {
				t.Fatal(got)
			}
			if l := b.observe("new"); time.Since(began) < time.Minute && l.ObserveFor != time.Minute {
				t.Errorf("after %v: expected an unlisted election to be observed first, got %+v", time.Since(began), l)
			}
		}
		b.win("new")
	})
}

// Two managers, with their own rules of trust.
func TestManagersNeverBothLeadAfterARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newDir(t)
		x := open(t, dir, "x")
		x.release(x.win("jobs"))
		restore := backup(t, dir)
		a := campaign(t, dir, "a", ttl, "jobs")[0]
		waitFor(t, ttl, "a leads", a.Leading)
		b := campaign(t, dir, "b", ttl, "jobs")[0]
		time.Sleep(ttl / 20)
		restore("jobs.json", "jobs.lock", "ELECTIONS")
		for began := time.Now(); time.Since(began) < 2*ttl; time.Sleep(10 * time.Millisecond) {
			if a.Leading() && b.Leading() {
				t.Fatal("two lead")
			}
		}
		if !a.Leading() && !b.Leading() {
			t.Error("expected one to lead, got none")
		}
	})
}

// The renewal is refused even if a file of the new directory is bad. Without an outcome the
// leader would lead until its deadline.
func TestALeaderWhoseDirectoryWasReplacedIsRefused(t *testing.T) {
	dir := newDir(t)
	a := open(t, dir, "a")
	held := a.win("jobs")
	replaceDir(t, dir, func(...string) {})
	plant := dir + "/jobs.request"
	if err := errors.Join(os.WriteFile(plant, nil, 0o600), os.Chmod(plant, 0o666)); err != nil {
		t.Fatal(err)
	}
	if got := a.renew(held); got.Outcome != backend.Refused || !errors.Is(got.Err, backend.ErrDenied) {
		t.Errorf("expected a refusal with a reason, got %v, %v", got.Outcome, got.Err)
	}
}

// A waiting context reports that a goroutine waits for its end.
type waiting struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (w *waiting) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waits) })
	return w.Context.Done()
}

// The watch of the old directory would report nothing of the new one.
func TestListenReturnsWhenTheDirectoryIsReplaced(t *testing.T) {
	dir := newDir(t)
	b := openWith(t, "b", file.Options{Dir: dir})
	b.release(b.win("jobs"))
	seen := b.observe("jobs")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w := &waiting{Context: ctx, waits: make(chan struct{})}
	returned := make(chan error, 1)
	go func() { returned <- b.Listen(w, []backend.Lease{seen}) }()
	<-w.waits
	restore := backup(t, dir)
	replaceDir(t, dir, restore)
	open(t, dir, "a").win("jobs")
	if err := <-returned; err != nil {
		t.Errorf("expected Listen to report a leader in the new directory, got %v", err)
	}
}

// No process is left that has seen the terms. Terms that jumped ahead of the clock after a
// deletion stay ahead while the register lists the election.
func TestTermsGrowThroughDeletions(t *testing.T) {
	for what, harms := range map[string][]string{
		"its_files":  {"", "jobs.json", "jobs.", "jobs."},
		"everything": {"", "*", "*"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := newDir(t)
			var last uint64
			for _, harm := range harms {
				if harm != "" {
					if err := remove(dir, strings.TrimSuffix(harm, "*")); err != nil {
						t.Fatal(err)
					}
				}
				a := open(t, dir, "a")
				held := a.win("jobs")
				if held.Term <= last {
					t.Errorf("the term is %v lower than the last", time.Duration(last-held.Term)*time.Microsecond)
				}
				last = held.Term
				a.release(held)
				file.Die(a.Backend)
			}
		})
	}
}

// Device numbers may change with a restart on btrfs, zfs and LVM. No process holds a lock
// then, so none need wait, and no term is skipped.
func TestANewDeviceNumberAfterARestartCostsNothing(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir, "a"), open(t, dir, "b")
	a.release(a.win("vacant"))
	a.win("crashed")
	b.win("first")
	file.Die(a.Backend)
	file.Die(b.Backend)
	names := []string{"first", "vacant", "crashed"}
	for _, name := range names {
		path := filepath.Join(dir, name+".json")
		text := strings.Replace(string(read(t, path)), `"lock": "`, `"lock": "f`, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(dir, name+".lock")
		line := string(read(t, path))
		line = strings.Replace(strings.TrimRight(line[:len(line)-9], " "), `"lock":"`, `"lock":"f`, 1)
		text = fmt.Sprintf("%-375s%08x\n", line, crc32.ChecksumIEEE([]byte(line)))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, dir, "c")
	for _, name := range names {
		l := c.observe(name)
		if l.ObserveFor != 0 {
			t.Errorf("%s: expected a lease that no process holds to be free, it must be observed for %v", name, l.ObserveFor)
			continue
		}
		if won := c.win(name); won.Term > l.Term+uint64(time.Hour/time.Microsecond) {
			t.Errorf("%s: expected the next term after %d, got %d", name, l.Term, won.Term)
		}
	}
}
