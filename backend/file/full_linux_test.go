package file_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-election/go-election/backend"
)

// A disk without room is mended by a person only. All goes on when there is room again.
func TestAFullDiskIsDenied(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatalf("this test mounts a small disk, as root: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	a := open(t, filepath.Join(disk, "elections"), "a")
	held := a.win("held")
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, bytes.Repeat([]byte("x"), 512<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	list, err := a.Inspect(t.Context(), ttl, ttl/3)
	if err != nil || !list[0].Warning || !strings.Contains(list[0].Text, "is on tmpfs, which is empty after") {
		t.Errorf("a disk in memory is explained as %v, %v", list, err)
	}
	seen := a.observe("jobs")
	bid := []backend.Bid{{Election: "jobs", Candidate: a.me, TTL: ttl, Renew: ttl / 3, Expected: seen}}
	answers, err := a.Acquire(t.Context(), bid)
	if err == nil {
		err = answers[0].Err
	}
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "free some") {
		t.Errorf("a bid: %v; want ErrDenied and what to do", err)
	}
	if err := a.Announce(t.Context(), backend.Member{Candidate: a.me, TTL: ttl}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("a member: %v; want ErrDenied", err)
	}
	if _, err := a.Renew(t.Context(), []backend.Held{held.Held()}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("a renewal: %v; want ErrDenied", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if got := a.renew(held); got.Outcome != backend.Granted {
		t.Errorf("a renewal when there is room again: %+v", got)
	}
	a.win("jobs")
}
