package config

import (
	"os"
	"slices"
	"testing"

	"github.com/go-election/go-election/backend"
)

// A new backend must be added to stores, since a file may have sections of stores that the
// program does not import, and to backend/all unless it is a module of its own.
func TestEveryBackendIsKnown(t *testing.T) {
	entries, err := os.ReadDir("../backend")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && !slices.Contains([]string{"all", "beside", "clean", "lease", "page", "register", "single"}, e.Name()) {
			dirs = append(dirs, e.Name())
		}
	}
	if !slices.Equal(dirs, stores) {
		t.Errorf("config knows the stores %q, the module has %q", stores, dirs)
	}
	for _, name := range stores {
		_, err := os.Stat("../backend/" + name + "/go.mod")
		if imported, nested := slices.Contains(backend.Names(), name), err == nil; imported == nested {
			t.Errorf("backend/all imports backend/%s: %v; it is a module of its own: %v", name, imported, nested)
		}
	}
}
