package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Step moves the wall clock of a running server, forwards or backwards. Steps add up and survive a restart. The server
// must have been started with Clock. Step leaves the monotonic clock alone, by which the server waits.
func (d *Daemon) Step(t testing.TB, by time.Duration) {
	t.Helper()
	d.requireRunning(t, "Step")
	if d.options.clock == "" {
		t.Fatal("testbed: Step: start the server with Clock")
	}
	d.offset += by
	if err := writeClock(d.options.clock, d.offset); err != nil {
		t.Fatal(err)
	}
}

// faketime finds the library that fakes the clock.
func faketime() string {
	return glob("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib64/faketime/libfaketimeMT.so.1")
}

// newClock makes the file of a server's clock, and what the server's environment needs for it.
func newClock(kind Kind, library, dir string, offset time.Duration) (file string, env []string, err error) {
	if library == "" {
		return "", nil, &missing{kind, "libfaketime for " + string(kind), "Debian: libfaketime"}
	}
	if kind == Redis {
		library += ":libc.so.6" // whose malloc comes before that of jemalloc, which reads the clock before the library is ready
	}
	file = filepath.Join(dir, "clock")
	return file, clockEnv(library, file), writeClock(file, offset)
}

// writeClock writes the clock's offset into a file. It replaces the file
// atomically, because the server reads it each time it reads its clock.
func writeClock(name string, offset time.Duration) error {
	text := fmt.Sprintf("%+.6f\n", offset.Seconds())
	next := name + "-new"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, name)
}

// clockEnv makes a program load the library that fakes its clock from that file.
func clockEnv(library, file string) []string {
	return []string{
		"LD_PRELOAD=" + library,
		"FAKETIME_TIMESTAMP_FILE=" + file,
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
		// By default the library changes waits on the monotonic clock. With
		// that, MySQL spins on two cores and takes ten seconds to start.
		"FAKETIME_FORCE_MONOTONIC_FIX=0",
	}
}
