package mysqltable

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// Preflight tests the rights to the fleet's table as well as those to the leases.
func TestPreflightReportsMissingRightsToTheTable(t *testing.T) {
	for _, layout := range layouts {
		t.Run(string(layout), func(t *testing.T) {
			l := newLab(t, testbed.MariaDB, layout, 10*time.Second)
			l.runOnce(t, "jobs", "somebody")
			for i, rights := range []string{"SELECT", "SELECT, INSERT", "SELECT, UPDATE", "SELECT, INSERT, UPDATE"} {
				user := fmt.Sprintf("'p%d%s'@'127.0.0.1'", i, l.Name[len(l.Name)-10:])
				l.exec(t, "CREATE USER "+user+" IDENTIFIED BY 'only-this'")
				t.Cleanup(func() { l.admin.Exec("DROP USER " + user) })
				l.exec(t, fmt.Sprintf("GRANT %s ON %s.leader_election TO %s", rights, l.Name, user))
				l.exec(t, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.election_shared_item TO %s", l.Name, user))
				c := l.options.MySQL.Config.Clone()
				c.User, c.Passwd = strings.Trim(strings.Split(user, "@")[0], "'"), "only-this"
				l.options.MySQL.Config = c
				n := l.node(t, "n")
				errs := n.Preflight(t.Context(), []backend.Bid{n.BidOver(backend.Lease{Election: "jobs"}), n.BidOver(backend.Lease{Election: "new"})})
				for _, err := range errs {
					if enough := rights == "SELECT, INSERT, UPDATE"; enough && err != nil || !enough && !errors.Is(err, backend.ErrDenied) {
						t.Errorf("with %s: %v", rights, err)
					}
				}
			}
			if leader := l.leader(t, "jobs"); leader != "somebody" {
				t.Errorf("after Preflight %q leads", leader)
			}
		})
	}
}
