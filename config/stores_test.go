package config

import (
	"os"
	"slices"
	"testing"

	"github.com/go-election/go-election/backend"
)

// A new backend must be added to stores, since a file may have sections of stores that the
// program does not import, and to backend/all.
func TestEveryBackendIsKnown(t *testing.T) {
	entries, err := os.ReadDir("../backend")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && !slices.Contains([]string{"all", "clean", "lease", "page", "single"}, e.Name()) {
			dirs = append(dirs, e.Name())
		}
	}
	if !slices.Equal(dirs, stores) {
		t.Errorf("config knows the stores %q, the module has %q", stores, dirs)
	}
	for _, name := range stores {
		if !slices.Contains(backend.Names(), name) {
			t.Errorf("backend/all does not import backend/%s", name)
		}
	}
}
