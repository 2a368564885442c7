package testbed

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

// ReadOnly makes the server refuse writes of ordinary users, like a demoted primary,
// or accept them again. MySQL also refuses writes of the administrator.
func (s *Server) ReadOnly(t testing.TB, on bool) {
	t.Helper()
	s.requireOwn(t, "ReadOnly")
	switch {
	case !on:
		s.Exec(t, "SET GLOBAL read_only = OFF") // and super_read_only
	case s.Kind() == MySQL:
		s.Exec(t, "SET GLOBAL super_read_only = ON")
	default:
		s.Exec(t, "SET GLOBAL read_only = ON")
	}
}

// KillConnections closes the connections of one user on the server's side, and waits
// until they are closed.
func (s *Server) KillConnections(t testing.TB, user string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	var all sql.NullString
	noError(t, s.db.QueryRowContext(ctx, "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE user = ?", user).Scan(&all))
	if !all.Valid {
		return
	}
	for id := range strings.SplitSeq(all.String, ",") {
		// Error 1094: the connection has already ended.
		if err := s.exec("KILL " + id); err != nil && !isServerError(err, 1094) {
			t.Fatal(err)
		}
	}
	// The server has closed a connection when it no longer lists it.
	Eventually(t, sqlLimit, "the connections end", func() error {
		var open int
		if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE id IN ("+all.String+")").Scan(&open); err != nil || open == 0 {
			return err
		}
		return fmt.Errorf("%d connections of %s are still open", open, user)
	})
}
