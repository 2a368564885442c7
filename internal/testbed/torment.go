package testbed

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// own skips or fails a test that torments a server that is not its own.
func (s *Server) own(t testing.TB, what string) {
	t.Helper()
	if s.shared {
		t.Fatalf("testbed: %s on a shared server: others are using it; Start one", what)
	}
	if s.program == nil {
		t.Skipf("%s needs a %s that the test started itself; %s names one that is already there",
			what, s.kind, s.kind.variable())
	}
}

// alive is own for torments that need a process.
func (s *Server) alive(t testing.TB, what string) *process {
	t.Helper()
	s.own(t, what)
	p := s.running()
	if p == nil {
		t.Fatalf("testbed: %s: %s %s is not running", what, s.kind, s.addr)
	}
	return p
}

// Pid returns the id of the server's process.
func (s *Server) Pid(t testing.TB) int {
	t.Helper()
	return s.alive(t, "Pid").pid()
}

// Kill kills the server at once, as kill -9 and a power failure do. What it
// acknowledged is on disk; [Server.Start] finds it there.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.alive(t, "Kill").kill()
}

// Terminate shuts the server down in order and waits until it is gone.
func (s *Server) Terminate(t testing.TB) {
	t.Helper()
	if err := s.alive(t, "Terminate").terminate(endLimit); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server again after Kill or Terminate, on the same port and
// with the same data, and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.own(t, "Start")
	if s.running() != nil {
		t.Fatalf("testbed: Start: %s %s is running", s.kind, s.addr)
	}
	if err := s.run(); err != nil {
		t.Fatalf("testbed: start %s again: %v", s.kind, err)
	}
}

// Stop freezes the server with SIGSTOP. Connections stay open, new ones are
// accepted by the kernel, and nobody answers.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.alive(t, "Stop").pause(true); err != nil {
		t.Fatal(err)
	}
}

// Continue lets a frozen server go on where it was.
func (s *Server) Continue(t testing.TB) {
	t.Helper()
	if err := s.alive(t, "Continue").pause(false); err != nil {
		t.Fatal(err)
	}
}

// ReadOnly makes the server refuse the writes of ordinary users, as a demoted
// primary does, or accept them again. MySQL then refuses the administrator too.
func (s *Server) ReadOnly(t testing.TB, on bool) {
	t.Helper()
	s.own(t, "ReadOnly")
	if err := s.readOnly(on); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) readOnly(on bool) error {
	if s.kind == MySQL && on {
		return s.exec("SET GLOBAL super_read_only = ON")
	}
	value := "OFF" // on MySQL this turns the other one off as well
	if on {
		value = "ON"
	}
	return s.exec("SET GLOBAL read_only = " + value)
}

// KillConnections closes, on the server's side, the connections that one user has,
// and waits until they are gone.
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
		// It may have ended by itself: error 1094 is no failure.
		if err := s.exec(fmt.Sprintf("KILL %d", id)); err != nil && !isServerError(err, 1094) {
			return err
		}
	}
	// The server has closed a connection when it does not list it any more.
	return poll(sqlLimit, func() error {
		var left int
		if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE id IN ("+list+")").Scan(&left); err != nil || left == 0 {
			return err
		}
		return fmt.Errorf("%d connections of %s are not closed yet", left, user)
	})
}
