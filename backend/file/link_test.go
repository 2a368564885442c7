//go:build linux || darwin

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
)

// A tool for deployment switches such a link to another release, while somebody leads in the directory of this one.
func TestADirectoryBehindALinkIsRefused(t *testing.T) {
	base := t.TempDir()
	release := filepath.Join(base, "releases", "1")
	if err := errors.Join(os.MkdirAll(release, 0o700), os.Symlink("releases/1", filepath.Join(base, "current"))); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(base, "current"), filepath.Join(base, "current", "election")} {
		_, err := file.Open(file.Options{Dir: dir})
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "set dir to "+release) {
			t.Errorf("%s: %v; want ErrDenied and the path to give", dir, err)
		}
	}
	if _, err := file.Open(file.Options{Dir: release}); err != nil {
		t.Errorf("the directory by its own path: %v", err)
	}
}
