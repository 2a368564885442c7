package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Step moves the server's clock by d, forwards or backwards, while it runs.
// Steps add up, and last through a restart. The server must have been started
// with Clock. Its monotonic clock, by which it waits, is left alone.
func (s *Server) Step(t testing.TB, d time.Duration) {
	t.Helper()
	s.own(t, "Step")
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
	z.alive(t, "Step")
	if z.clock == "" {
		t.Fatal("testbed: Step: start the server with Clock")
	}
	z.offset += d
	if err := writeClock(z.clock, z.offset); err != nil {
		t.Fatal(err)
	}
}

// writeClock says in a file how far the clock is off. The file is replaced as
// a whole: the server reads it at every look at the clock.
func writeClock(name string, offset time.Duration) error {
	text := fmt.Sprintf("%+.6f\n", offset.Seconds())
	next := name + "-new"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, name)
}

// clockEnv has a program look at that file, by the library that fakes its clock.
func clockEnv(library, file string) []string {
	return []string{
		"LD_PRELOAD=" + library,
		"FAKETIME_TIMESTAMP_FILE=" + file,
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
		// By default the library tinkers with waits on the monotonic clock.
		// MySQL then spins on two cores and takes ten seconds to start.
		"FAKETIME_FORCE_MONOTONIC_FIX=0",
	}
}
