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

// campaign starts a manager that campaigns for elections. It polls, because a synctest
// bubble does not know that a read from the kernel blocks.
func campaign(t *testing.T, dir, id string, ttl time.Duration, names ...string) (all []*election.Election) {
	t.Helper()
	m, err := election.New(open(t, dir, id).Backend, election.Options{ID: id, TTL: ttl})
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

// waitFor waits, in virtual time, until ok returns true.
func waitFor(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("expected within %v: %s", limit, what)
		}
	}
}

// badFiles are changes after which a file is not one of ours.
func badFiles() map[string]func(path string) error {
	changes := map[string]func(path string) error{
		"a symbolic link": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/nowhere", path))
		},
		"a file that all can write": func(path string) error { return os.Chmod(path, 0o666) },
	}
	if os.Geteuid() == 0 {
		changes["a file of another user"] = func(path string) error { return os.Chown(path, 65534, 65534) }
	}
	return changes
}

// An election with a bad file is shown as one that no process can have, and a bid for it
// reports the reason.
func TestOneBadFileHidesNoOtherElection(t *testing.T) {
	for what, spoil := range badFiles() {
		for _, suffix := range []string{".json", ".lock"} {
			t.Run(strings.ReplaceAll(what, " ", "_")+suffix, func(t *testing.T) {
				dir := newDir(t)
				a, b := open(t, dir, "a"), openWith(t, "b", file.Options{Dir: dir})
				held := a.win("good")
				a.release(a.win("bad"))
				seen := []backend.Lease{b.observe("bad"), b.observe("good")}
				if err := spoil(dir + "/bad" + suffix); err != nil {
					t.Fatal(err)
				}
				found, err := b.Observe(t.Context(), []backend.Lease{{Election: "bad"}, {Election: "good"}})
				if err != nil || len(found) != 2 || found[0].ObserveFor != backend.ExpiresInStore || found[1].Holder.ID != "a" {
					t.Errorf("expected the leader of the other election, got %+v, %v", found, err)
				}
				got, err := b.Acquire(t.Context(), []backend.Bid{{Election: "bad", Candidate: b.me, TTL: ttl, Expected: seen[0]}})
				if err != nil || !errors.Is(got[0].Err, backend.ErrDenied) || !strings.Contains(got[0].Err.Error(), "bad"+suffix) {
					t.Errorf("expected ErrDenied with the name of the file for a bid, got %+v, %v", got, err)
				}
				if _, err := b.Observe(t.Context(), []backend.Lease{{Election: "bad"}}); !errors.Is(err, backend.ErrDenied) {
					t.Errorf("expected ErrDenied when no other election is read, got %v", err)
				}
				list, err := b.List(t.Context(), "", 10)
				if err != nil || len(list) != 1 || list[0].Election != "good" {
					t.Errorf("expected the other election in the list, got %+v, %v", list, err)
				}
				a.release(held)
				if err := b.Listen(t.Context(), seen); err != nil {
					t.Errorf("expected Listen to report the other election, got %v", err)
				}
				if err := file.ListenByPolling(t.Context(), b.Backend, seen); err != nil {
					t.Errorf("expected polling to report the other election, got %v", err)
				}
			})
		}
	}
}

// Managers elect the next leader of the other election.
func TestOneBadFileCostsNoOtherElectionItsNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := newDir(t)
		a := open(t, dir, "a")
		a.win("good")
		a.release(a.win("bad"))
		if err := os.Chmod(dir+"/bad.json", 0o666); err != nil {
			t.Fatal(err)
		}
		b := campaign(t, dir, "b", ttl, "good", "bad")
		time.Sleep(ttl)
		file.Die(a.Backend)
		waitFor(t, 2*ttl, "the good election is led", b[0].Leading)
		if b[1].Leading() {
			t.Error("expected no leader of the election with the bad file")
		}
		if err := os.Chmod(dir+"/bad.json", 0o600); err != nil {
			t.Fatal(err)
		}
		waitFor(t, 2*ttl, "the other one is led once its file is mended", b[1].Leading)
	})
}

func TestOneBadMemberHidesNoOther(t *testing.T) {
	dir := newDir(t)
	a := open(t, dir, "a")
	if err := a.Announce(t.Context(), backend.Member{Candidate: a.me, TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere", dir+"/"+string(backend.NewNonce())+".member"); err != nil {
		t.Fatal(err)
	}
	if all, err := a.Members(t.Context(), "", 10); err != nil || len(all) != 1 || all[0].Nonce != a.me.Nonce {
		t.Errorf("expected the good member alone, got %+v, %v", all, err)
	}
}

// Memory for the whole file would end the process. The leader continues.
func TestAHugeRegisterIsAnErrorAndNotRead(t *testing.T) {
	for _, size := range []int64{64<<20 + 1, 8 << 40} {
		dir := newDir(t)
		a, b := open(t, dir, "a"), open(t, dir, "b")
		held := a.win("jobs")
		if err := os.Truncate(dir+"/ELECTIONS", size); err != nil {
			t.Fatal(err)
		}
		_, err := b.Observe(t.Context(), []backend.Lease{{Election: "new"}})
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "ELECTIONS") {
			t.Errorf("%d bytes: expected ErrDenied with the name of the register, got %v", size, err)
		}
		if got := a.renew(held); got.Outcome != backend.Granted {
			t.Errorf("%d bytes: expected the leader to be renewed, got %v, %v", size, got.Outcome, got.Err)
		}
		if l := b.observe("jobs"); l.Holder.ID != "a" {
			t.Errorf("%d bytes: expected the leader to be shown, got %+v", size, l)
		}
	}
}
