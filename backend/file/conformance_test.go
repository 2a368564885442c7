//go:build linux || darwin

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/internal/testbed"
)

// store is a fresh directory. Names in the faults are file names as they are.
func store(t testing.TB, parent string, o file.Options) conformance.Store {
	dir, err := os.MkdirTemp(parent, "go-election-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o.Dir = dir
	remove := func(suffixes ...string) conformance.Fault {
		return func(_ bool, election string) (err error) {
			for _, suffix := range suffixes {
				err = errors.Join(err, os.Remove(filepath.Join(dir, election+suffix)))
			}
			return err
		}
	}
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := file.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { file.Die(b) })
			return b
		},
		Kill: func(b backend.Backend) { file.Die(b.(*file.Backend)) },
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: remove(".lock", ".json"),
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				return os.WriteFile(filepath.Join(dir, election+".json"), []byte(`{"layout":1,"election":"`+election+`","term":7,"heartbeat":"1","ttl_ns":-5,
					"holder":{"id":"<script>\u202e\u001b]0;","nonce":"\u0000","metadata":"\u0007"},"lock":"x","end":"\u001b","history":[{"id":"\u202e"}]}`), 0o600)
			},
		},
	}
}

// memory returns a directory in memory, where writing to the disk takes no time.
func memory(t testing.TB) string {
	if _, err := os.Stat("/dev/shm"); err == nil {
		return "/dev/shm"
	}
	return t.TempDir()
}

// TestConformance runs the suite in virtual time. It polls: a bubble cannot see
// that a reading from the kernel waits.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		Virtual: true, Short: true, // a day of renewals is many files
		NewStore: func(t testing.TB) conformance.Store { return store(t, memory(t), file.Options{Poll: true}) },
	})
}

// TestConformanceInRealTime runs the suite as processes would meet it.
func TestConformanceInRealTime(t *testing.T) {
	conformance.Run(t, testbed.InTier(conformance.Harness{
		TTL: 2 * time.Second, Parallel: true, Late: time.Second, Short: true,
		NewStore: func(t testing.TB) conformance.Store {
			return store(t, memory(t), file.Options{MaxTTL: 2 * time.Second})
		},
	}))
}
