package testbed

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// requireOwn fails or skips a test that injects a fault into a server that does not
// belong to it.
func (s *Server) requireOwn(t testing.TB, what string) {
	t.Helper()
	if s.shared {
		t.Fatalf("testbed: %s on a shared server, which other tests use: Start one", what)
	}
	if s.program == nil {
		t.Skipf("%s needs a %s that the test started, but %s names a running one",
			what, s.kind, s.kind.variable())
	}
}

// requireRunning is requireOwn for faults that need a running process.
func (s *Server) requireRunning(t testing.TB, what string) *process {
	t.Helper()
	s.requireOwn(t, what)
	p := s.running()
	if p == nil {
		t.Fatalf("testbed: %s: %s %s is not running", what, s.kind, s.addr)
	}
	return p
}

// Pid returns the id of the server's process.
func (s *Server) Pid(t testing.TB) int {
	t.Helper()
	return s.requireRunning(t, "Pid").pid()
}

// Kill kills the server with SIGKILL. What it acknowledged is on disk, where
// [Server.Start] finds it.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.requireRunning(t, "Kill").kill()
}

// Terminate sends SIGTERM and waits until the server has ended.
func (s *Server) Terminate(t testing.TB) {
	t.Helper()
	if err := s.requireRunning(t, "Terminate").terminate(endLimit); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server again after Kill or Terminate, on the same port and
// with the same data, and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.requireOwn(t, "Start")
	if s.running() != nil {
		t.Fatalf("testbed: Start: %s %s is running", s.kind, s.addr)
	}
	if err := s.run(); err != nil {
		t.Fatalf("testbed: start %s again: %v", s.kind, err)
	}
}

// Stop freezes the server with SIGSTOP. Connections stay open, the kernel accepts
// new ones, and no request is answered.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.requireRunning(t, "Stop").pause(true); err != nil {
		t.Fatal(err)
	}
}

// Continue resumes a frozen server.
func (s *Server) Continue(t testing.TB) {
	t.Helper()
	if err := s.requireRunning(t, "Continue").pause(false); err != nil {
		t.Fatal(err)
	}
}

// ReadOnly makes the server refuse writes of ordinary users, like a demoted primary,
// or accept them again. MySQL also refuses writes of the administrator.
func (s *Server) ReadOnly(t testing.TB, on bool) {
	t.Helper()
	s.requireOwn(t, "ReadOnly")
	if err := s.readOnly(on); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) readOnly(on bool) error {
	if s.kind == MySQL && on {
		return s.exec("SET GLOBAL super_read_only = ON")
	}
	value := "OFF" // on MySQL this also turns super_read_only off
	if on {
		value = "ON"
	}
	return s.exec("SET GLOBAL read_only = " + value)
}

// KillConnections closes the connections of one user on the server's side, and waits
// until they are closed.
func (s *Server) KillConnections(t testing.TB, user string) {
	t.Helper()
	if err := s.killConnections(user); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) killConnections(user string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	rows, err := s.db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE user = ?", user)
	if err != nil {
		return err
	}
	defer rows.Close()
	var ids []uint64
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	list := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ", "), "[]")
	for _, id := range ids {
		// Error 1094: the connection has already ended.
		if err := s.exec(fmt.Sprintf("KILL %d", id)); err != nil && !isServerError(err, 1094) {
			return err
		}
	}
	// The server has closed a connection when it no longer lists it.
	return poll(sqlLimit, func() error {
		var open int
		if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE id IN ("+list+")").Scan(&open); err != nil || open == 0 {
			return err
		}
		return fmt.Errorf("%d connections of %s are still open", open, user)
	})
}
