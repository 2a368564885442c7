//go:build unix

package manual_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/lab/testbed"
)

// Kubernetes replaces a link when a ConfigMap changes.
func TestALinkToTheFileMayBeReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "leader.json")
		for i, id := range []string{"a", "b"} {
			version := filepath.Join(dir, fmt.Sprint(i+1))
			testbed.NoError(t, os.Mkdir(version, 0o700))
			write(t, filepath.Join(version, "leader.json"), fmt.Sprintf(`{"version": %d, "leader": %q}`, i+1, id))
		}
		testbed.NoError(t, errors.Join(os.Symlink("1", dir+"/..data"), os.Symlink("..data/leader.json", file)))
		a, _ := campaign(t, "a", manual.Options{File: file, MaxTTL: maxTTL})
		b, _ := campaign(t, "b", manual.Options{File: file, MaxTTL: maxTTL})
		takes(t, maxTTL+ttl, "a to lead", a.Leading)
		testbed.NoError(t, errors.Join(os.Symlink("2", dir+"/..new"), os.Rename(dir+"/..new", dir+"/..data")))
		takes(t, maxTTL+ttl, "b to lead", func() bool {
			if a.Leading() && b.Leading() {
				t.Fatal("two lead")
			}
			return b.Leading()
		})
	})
}
