//go:build linux || darwin

package file_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/election"
)

// candidate is a process with a manager that campaigns for elections. It polls: a bubble
// cannot see that a reading from the kernel waits.
func candidate(t *testing.T, dir, id string, ttl time.Duration, names ...string) (all []*election.Election) {
	t.Helper()
	m, err := election.New(open(t, dir, id).Backend, &election.Options{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ttl)
		defer cancel()
		m.Close(ctx)
	})
	for _, name := range names {
		e, err := m.Join(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Lead(func(ctx context.Context, _ *election.Leadership) error { <-ctx.Done(); return nil }); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// waitFor looks often, in virtual time, until ok holds.
func waitFor(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("expected within %v: %s", limit, what)
		}
	}
}

// foreign is what makes a file one that is not ours.
func foreign() map[string]func(path string) error {
	plants := map[string]func(path string) error{
		"a symbolic link": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/nowhere", path))
		},
		"a file that all can write": func(path string) error { return os.Chmod(path, 0o666) },
	}
	if os.Geteuid() == 0 {
		plants["a file of another user"] = func(path string) error { return os.Chown(path, 65534, 65534) }
	}
	return plants
}

// TestOneBadFileHidesNoOtherElection: it is seen as one that nobody can have, and a bid
// for it says why.
func TestOneBadFileHidesNoOtherElection(t *testing.T) {
	for what, plant := range foreign() {
		for _, suffix := range []string{".json", ".lock"} {
			t.Run(strings.ReplaceAll(what, " ", "_")+suffix, func(t *testing.T) {
				dir := private(t)
				a, b := open(t, dir, "a"), openWith(t, "b", file.Options{Dir: dir})
				held := a.win("good")
				a.free(a.win("bad"))
				seen := []backend.Lease{b.observe("bad"), b.observe("good")}
				if err := plant(dir + "/bad" + suffix); err != nil {
					t.Fatal(err)
				}
				found, err := b.Observe(t.Context(), []backend.Lease{{Election: "bad"}, {Election: "good"}})
				if err != nil || len(found) != 2 || found[0].ObserveFor != backend.ExpiresInStore || found[1].Holder.ID != "a" {
					t.Errorf("expected to see who leads the other election, got %+v, %v", found, err)
				}
				got, err := b.Acquire(t.Context(), []backend.Bid{{Election: "bad", Candidate: b.me, TTL: ttl, Expected: seen[0]}})
				if err != nil || !errors.Is(got[0].Err, backend.ErrDenied) || !strings.Contains(got[0].Err.Error(), "bad"+suffix) {
					t.Errorf("expected a bid to be denied with the file's name, got %+v, %v", got, err)
				}
				if _, err := b.Observe(t.Context(), []backend.Lease{{Election: "bad"}}); !errors.Is(err, backend.ErrDenied) {
					t.Errorf("expected ErrDenied when nothing but this can be said, got %v", err)
				}
				list, err := b.List(t.Context(), "", 10)
				if err != nil || len(list) != 1 || list[0].Election != "good" {
					t.Errorf("expected a list of the other election, got %+v, %v", list, err)
				}
				a.free(held)
				if err := b.Listen(t.Context(), seen); err != nil {
					t.Errorf("expected to hear of the other election, got %v", err)
				}
				if err := file.ListenByPolling(t.Context(), b.Backend, seen); err != nil {
					t.Errorf("expected to hear of the other election where the kernel does not tell, got %v", err)
				}
			})
		}
	}
}

// TestOneBadFileCostsNoOtherElectionItsNextLeader: managers follow beside it.
func TestOneBadFileCostsNoOtherElectionItsNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := private(t)
		a := open(t, dir, "a")
		a.win("good")
		a.free(a.win("bad"))
		if err := os.Chmod(dir+"/bad.json", 0o666); err != nil {
			t.Fatal(err)
		}
		b := candidate(t, dir, "b", ttl, "good", "bad")
		time.Sleep(ttl)
		file.Die(a.Backend)
		waitFor(t, 2*ttl, "the good election is led", b[0].Leading)
		if b[1].Leading() {
			t.Error("expected nobody to lead the other one")
		}
		if err := os.Chmod(dir+"/bad.json", 0o600); err != nil {
			t.Fatal(err)
		}
		waitFor(t, 2*ttl, "the other one is led when its file was mended", b[1].Leading)
	})
}

// TestOneBadMemberHidesNoOther.
func TestOneBadMemberHidesNoOther(t *testing.T) {
	dir := private(t)
	a := open(t, dir, "a")
	if err := a.Announce(t.Context(), backend.Member{Candidate: a.me, TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", dir+"/"+backend.NewNonce()+".member"); err != nil {
		t.Fatal(err)
	}
	if all, err := a.Members(t.Context(), "", 10); err != nil || len(all) != 1 || all[0].Nonce != a.me.Nonce {
		t.Errorf("expected the member that is in order, got %+v, %v", all, err)
	}
}

// TestAHugeRegisterIsAnErrorAndNotRead: to make room for it would end the process. Who
// leads goes on.
func TestAHugeRegisterIsAnErrorAndNotRead(t *testing.T) {
	for _, size := range []int64{64<<20 + 1, 8 << 40} {
		dir := private(t)
		a, b := open(t, dir, "a"), open(t, dir, "b")
		held := a.win("jobs")
		if err := os.Truncate(dir+"/ELECTIONS", size); err != nil {
			t.Fatal(err)
		}
		_, err := b.Observe(t.Context(), []backend.Lease{{Election: "new"}})
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "ELECTIONS") {
			t.Errorf("%d bytes: expected ErrDenied with the register's name, got %v", size, err)
		}
		if got := a.renew(held); got.Outcome != backend.Granted {
			t.Errorf("%d bytes: expected who leads to go on, got %v, %v", size, got.Outcome, got.Err)
		}
		if l := b.observe("jobs"); l.Holder.ID != "a" {
			t.Errorf("%d bytes: expected to see who leads, got %+v", size, l)
		}
	}
}
