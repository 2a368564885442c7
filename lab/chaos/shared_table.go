//go:build linux

package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysqltable"
	"github.com/go-election/go-election/lab/testbed"
)

// otherThreshold is the time after which the other program takes over a row that was not renewed.
const otherThreshold = 3 * time.Second

// tableSite is a MariaDB with the table of other programs. Its clock is not stepped: they decide by it.
func tableSite(t testing.TB) *Site {
	s := testbed.Start(t, testbed.MariaDB, testbed.Options{})
	d := s.Database(t)
	makeTables(t, d, mysqltable.DefaultPrefix)
	d.Exec(t, "CREATE TABLE leader_election (name varchar(128) PRIMARY KEY, node varchar(128) NOT NULL, last_seen_active timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)")
	how := func(proxies []*testbed.Proxy) []string {
		return environ("mysqltable", "DSN", proxies[0].Config(d.User).FormatDSN(), "MAX_TTL", greatestTTL.String(),
			"LAYOUT", "last_seen_active", "THRESHOLD", otherThreshold.String())
	}
	change := func(statement string) fault {
		return edit(func(r *run, election string) { s.Exec(r, fmt.Sprintf(statement, d.Name, election)) })
	}
	return newSite(t, "mysqltable", otherThreshold+2*time.Second, []string{s.Addr()}, how, serverFaults(s.Daemon), sqlFaults(s, d), map[string]fault{
		"row deleted": change("DELETE FROM %s.leader_election WHERE name = '%s'"),
		"row edited":  change("UPDATE %s.leader_election SET node = 'host-7' WHERE name = '%s'"),
	})
}
