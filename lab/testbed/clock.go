package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Step moves the wall clock of a running server that was started with Clock, forwards or backwards. Steps add
// up and survive a restart. Step leaves the monotonic clock alone, by which the server waits.
func (d *Daemon) Step(t testing.TB, by time.Duration) {
	t.Helper()
	d.requireRunning(t, "Step")
	if d.clock == "" {
		t.Fatal("testbed: Step: start the server with Clock")
	}
	d.offset += by
	NoError(t, writeClock(d.clock, d.offset))
}

// setClock gives a server a clock of its own.
func (d *Daemon) setClock() {
	const name = "/faketime/libfaketimeMT.so.1"
	library := glob("/usr/lib/*"+name, "/usr/lib64"+name)
	if root := mysqlRoot(); d.kind == MySQL && root != "" {
		library = glob(root + "/usr/lib/*-linux-gnu*" + name)
	}
	if library == "" {
		check(&missing{d.kind, "libfaketime for " + string(d.kind), "Debian: libfaketime"})
	}
	if d.kind == Redis { // whose jemalloc would read the clock before the library is ready
		library += ":libc.so.6"
	}
	d.clock = filepath.Join(d.dir, "clock")
	check(writeClock(d.clock, 0))
	d.env = append(d.env,
		"LD_PRELOAD="+library,
		"FAKETIME_TIMESTAMP_FILE="+d.clock,
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
		// By default the library changes waits on the monotonic clock. With
		// that, MySQL spins on two cores and takes ten seconds to start.
		"FAKETIME_FORCE_MONOTONIC_FIX=0")
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
