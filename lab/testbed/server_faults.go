package testbed

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

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
	if s.Kind() == MySQL && on {
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
