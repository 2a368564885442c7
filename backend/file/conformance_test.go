//go:build linux || darwin

package file_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/conformance/registertest"
	"github.com/go-election/go-election/lab/testbed"
)

// memoryDir returns a new directory in memory, where a write does not wait for a disk.
func memoryDir(t testing.TB) string { return testbed.TempDir(t) }

// edit changes the document in a directory.
func edit(t testing.TB, dir string, change func(items map[string]map[string]any)) error {
	value := file.Value(t, dir)
	var doc map[string]json.RawMessage
	var items map[string]map[string]any
	if err := errors.Join(json.Unmarshal(value, &doc), json.Unmarshal(doc["items"], &items)); err != nil {
		return err
	}
	change(items)
	doc["items"], _ = json.Marshal(items)
	value, _ = json.Marshal(doc)
	file.SetValue(t, dir, value)
	return nil
}

// newStore makes a directory for the suite.
func newStore(t testing.TB, o file.Options, open func(file.Options) (*file.Backend, error)) conformance.Store {
	o.Dir = memoryDir(t)
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := open(o)
			testbed.NoError(t, err)
			t.Cleanup(func() { file.Die(b) })
			return b
		},
		Kill: func(b backend.Backend) { file.Die(b.(*file.Backend)) },
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				return edit(t, o.Dir, func(items map[string]map[string]any) { delete(items, "record/"+election) })
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				text := "<script>\x1b]0;\u202e"
				return edit(t, o.Dir, func(items map[string]map[string]any) {
					maps.Copy(items["record/"+election]["value"].(map[string]any), map[string]any{
						"id": text, "nonce": text, "address": "javascript:alert(1)\n", "metadata": "\x00\x1b[2J", "heartbeat": "2",
					})
				})
			},
		},
	}
}

// TestConformance runs the suite in virtual time. It polls, because a synctest bubble does
// not know that a read from the kernel blocks.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{
		Virtual: true, Short: true, // a day of renewals writes many files
		NewStore: func(t testing.TB) conformance.Store { return newStore(t, file.Options{}, file.OpenPolled) },
	})
}

// TestConformanceInRealTime runs the suite in real time, with notifications of the kernel.
func TestConformanceInRealTime(t *testing.T) {
	conformance.Run(t, testbed.InTier(conformance.Harness{
		TTL: 2 * time.Second, Parallel: true, Late: time.Second, Short: true,
		NewStore: func(t testing.TB) conformance.Store {
			return newStore(t, file.Options{MaxTTL: 2 * time.Second}, file.Open)
		},
	}))
}

// opened returns the register of another process.
func opened(t testing.TB, dir string) register.Register {
	t.Helper()
	b := testbed.Open(t, file.Open, file.Options{Dir: dir})
	return file.RegisterOf(b)
}

func TestADirectoryIsARegister(t *testing.T) {
	var dir string
	registertest.Run(t, registertest.Harness{
		MaxBytes: 8 << 20,
		NewStore: func(t testing.TB) func(testing.TB) register.Register {
			dir = memoryDir(t)
			return func(t testing.TB) register.Register { return opened(t, dir) }
		},
		Set: func(value []byte) { file.SetValue(t, dir, value) },
	})
}

func TestDriver(t *testing.T) {
	var dir string
	leasetest.Run(t, leasetest.Harness{
		NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			dir = memoryDir(t)
			return func(t testing.TB) lease.Driver {
				return register.NewDriver(opened(t, dir), register.Limits{Name: "file", MinTTL: time.Second, MaxTTL: time.Minute, MaxBytes: 1 << 20})
			}
		},
		GoBack: func() func() {
			was := file.Value(t, dir)
			return func() { file.SetValue(t, dir, was) }
		},
	})
}

// files returns the names of the files of the value.
func files(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "leases-*.json"))
	testbed.NoError(t, err)
	return names
}

// Whoever asks whether somebody leads locks the directory for a moment, and so does the next one.
func TestProcessesThatBeginAtOnceAreNoLeaders(t *testing.T) {
	dir := memoryDir(t)
	for range 60 {
		var all sync.WaitGroup
		for range 8 {
			r := opened(t, dir)
			all.Go(func() {
				if _, _, err := r.Get(t.Context()); err != nil {
					t.Errorf("nobody has ever led in an empty directory: %v", err)
				}
			})
		}
		all.Wait()
	}
}

// Several processes begin at once in an empty directory.
func TestOneOfManyMakesTheFirstValue(t *testing.T) {
	for range 50 {
		dir := memoryDir(t)
		var wins atomic.Int32
		var all sync.WaitGroup
		for n := range 4 {
			r := opened(t, dir)
			all.Go(func() {
				time.Sleep(time.Duration(n) * 50 * time.Microsecond)
				if _, err := r.Swap(t.Context(), "", fmt.Append(nil, n)); err == nil {
					wins.Add(1)
				}
			})
		}
		if all.Wait(); wins.Load() != 1 {
			t.Fatalf("%d processes have made the first value", wins.Load())
		}
	}
}
