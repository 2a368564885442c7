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
	"github.com/go-election/go-election/lab/testbed"
)

// newStore makes a directory. The names of elections in faults must be file names.
func newStore(t testing.TB, parent string, o file.Options) conformance.Store {
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
			b, err := file.Open(o)
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

// memoryDir returns a directory in memory, where a write does not wait for a disk.
func memoryDir(t testing.TB) string {
	if _, err := os.Stat("/dev/shm"); err == nil {
		return "/dev/shm"
	}
	return t.TempDir()
}

// TestConformance runs the suite in virtual time. It polls, because a synctest bubble does
// not know that a read from the kernel blocks.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		Virtual: true, Short: true, // a day of renewals writes many files
		NewStore: func(t testing.TB) conformance.Store { return newStore(t, memoryDir(t), file.Options{Poll: true}) },
	})
}

// TestConformanceInRealTime runs the suite in real time, with notifications of the kernel.
func TestConformanceInRealTime(t *testing.T) {
	conformance.Run(t, testbed.InTier(conformance.Harness{
		TTL: 2 * time.Second, Parallel: true, Late: time.Second, Short: true,
		NewStore: func(t testing.TB) conformance.Store {
			return newStore(t, memoryDir(t), file.Options{MaxTTL: 2 * time.Second})
		},
	}))
}
