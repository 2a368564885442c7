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

// Step moves the server's clock by d, as [Server.Step] does. The server must have
// been started with Clock.
func (z *ZooKeeperServer) Step(t testing.TB, d time.Duration) {
	t.Helper()
	z.requireRunning(t, "Step")
	if z.clock == "" {
		t.Fatal("testbed: Step: start the server with Clock")
	}
	z.offset += d
	if err := writeClock(z.clock, z.offset); err != nil {
		t.Fatal(err)
	}
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
