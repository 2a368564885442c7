package config_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/lab/testbed"
)

// If the store denies access, Open returns an error that says how to fix it. If the store
// does not answer, Open logs a warning.
func TestOpenReportsADeniedStore(t *testing.T) {
	s := testbed.Shared(t, testbed.MariaDB)
	d := s.Database(t)
	for what, c := range map[string]struct {
		user, addr string
		denied     string // part of the error; "": Open succeeds
	}{
		"a wrong password": {d.User.User + ":wrong", s.Addr(), "Access denied"},
		"no tables":        {d.User.User + ":" + d.User.Passwd, s.Addr(), "elect schema --apply"},
		"no server":        {d.User.User + ":" + d.User.Passwd, "127.0.0.1:1", ""},
	} {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			conf, err := config.Load("", config.Options{Environ: []string{"ELECTION_BACKEND=mysql", "ELECTION_MYSQL_DSN=" + c.user + "@tcp(" + c.addr + ")/" + d.Name}})
			testbed.NoError(t, err)
			var log bytes.Buffer
			conf.Election.Logger = slog.New(slog.NewTextHandler(&log, nil))
			m, err := conf.Open(t.Context())
			if c.denied != "" {
				if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), c.denied) {
					t.Errorf("Open: %v; want it denied, with %q", err, c.denied)
				}
				return
			}
			if err != nil || !strings.Contains(log.String(), "does not answer yet") {
				t.Fatalf("Open: %v; want a manager and a warning in the log\n%s", err, log.String())
			}
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
