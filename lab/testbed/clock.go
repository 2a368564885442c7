package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Step moves the wall clock of a running server by d, forwards or backwards.
// Steps add up and survive a restart. The server must have been started with
// Clock. Step leaves the monotonic clock alone, by which the server waits.
func (s *Server) Step(t testing.TB, d time.Duration) {
	t.Helper()
	s.requireOwn(t, "Step")
	if !s.options.Clock {
		t.Fatal("testbed: Step: start the server with Clock")
	}
	s.offset += d
	if err := s.writeClock(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) clockFile() string { return filepath.Join(s.dir, "clock") }

func (s *Server) writeClock() error { return writeClock(s.clockFile(), s.offset) }

func (s *Server) clockEnv() []string { return clockEnv(s.program.faketime, s.clockFile()) }

// Step moves the daemon's clock by d, as [Server.Step] does. It must have been started with Clock.
func (d *Daemon) Step(t testing.TB, by time.Duration) {
	t.Helper()
	d.requireRunning(t, "Step")
	if d.clock == "" {
		t.Fatal("testbed: Step: start the server with Clock")
	}
	d.offset += by
	if err := writeClock(d.clock, d.offset); err != nil {
		t.Fatal(err)
	}
}

// newClock makes the file of a daemon's clock, and what the daemon's environment needs for it.
func newClock(kind Kind, dir string) (file string, env []string, err error) {
	library := glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if library == "" {
		return "", nil, &missing{kind, "libfaketime", "Debian: libfaketime"}
	}
	if kind == Redis {
		library += ":libc.so.6" // whose malloc comes before that of jemalloc, which reads the clock before the library is ready
	}
	file = filepath.Join(dir, "clock")
	return file, clockEnv(library, file), writeClock(file, 0)
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
