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
	held := a.Leads("held")
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, bytes.Repeat([]byte("x"), 512<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	list, err := a.Inspect(t.Context(), ttl, ttl/3)
	if err != nil || !list[0].Warning || !strings.Contains(list[0].Text, "is on tmpfs, which is empty after") {
		t.Errorf("a disk in memory is explained as %v, %v", list, err)
	}
	if !list[1].Warning || !strings.Contains(list[1].Text, "no space left") {
		t.Errorf("a full disk is explained as %v", list[1])
	}
	if err := a.Bids(a.Sees("jobs")).Err; !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a bid: %v; want ErrDenied and what to do", err)
	}
	if err := a.Announce(t.Context(), backend.Member{Candidate: a.Me, TTL: ttl}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("a member: %v; want ErrDenied", err)
	}
	if err := a.Renews(held).Err; !errors.Is(err, backend.ErrDenied) {
		t.Errorf("a renewal: %v; want ErrDenied", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	a.Keeps(held)
	a.Leads("jobs")
}
