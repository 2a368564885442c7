//go:build linux || darwin

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-election/go-election/backend"
)

// The error is for the election whose file cannot be written.
func TestPreflightFindsFilesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, "a"), open(t, dir, "b")
	a.win("led")
	for _, name := range []string{"led", "link"} {
		if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "link.lock")); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		err := b.Preflight(t.Context(), []backend.Bid{{Election: name, Candidate: b.me, TTL: ttl}})[0]
		if want := name == "link"; want != errors.Is(err, backend.ErrDenied) || !want && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "link.lock")); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil {
		t.Fatal(err)
	} else {
		for _, e := range entries {
			if e.Name()[0] == '.' {
				t.Errorf("the preflight has left %s", e.Name())
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := b.Preflight(t.Context(), []backend.Bid{{Election: "led", Candidate: b.me, TTL: ttl}})[0]; err == nil {
		t.Error("expected an error without a directory, got nil")
	}
}
