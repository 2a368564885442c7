package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// Preflight reports each right that a grant needs, although the member can write its own record
// and no row is found.
func TestPreflightReportsMissingRights(t *testing.T) {
	rights := map[string]map[string]string{
		"to make leases":   {"lease": "SELECT, UPDATE", "term": "SELECT, INSERT, UPDATE"},
		"to write leases":  {"lease": "SELECT, INSERT", "term": "SELECT, INSERT, UPDATE"},
		"to make terms":    {"lease": "SELECT, INSERT, UPDATE", "term": "SELECT, UPDATE"},
		"to write terms":   {"lease": "SELECT, INSERT, UPDATE", "term": "SELECT, INSERT"},
		"to write at all":  {"lease": "SELECT", "term": "SELECT"},
		"nothing (a bid)":  {"lease": "SELECT, INSERT, UPDATE", "term": "SELECT, INSERT, UPDATE"},
		"nothing (a name)": {"lease": "SELECT, INSERT, UPDATE", "term": "SELECT, INSERT, UPDATE"},
	}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		l.node(t, "leader").lead("led", time.Second)
		i := 0
		for missing, tables := range rights {
			i++
			user := fmt.Sprintf("'p%d%s'@'127.0.0.1'", i, l.Name[len(l.Name)-10:])
			l.exec(t, "CREATE USER "+user+" IDENTIFIED BY 'only-this'", fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s.election_member TO %s", l.Name, user))
			t.Cleanup(func() { l.admin.Exec("DROP USER " + user) })
			for table, list := range tables {
				l.exec(t, fmt.Sprintf("GRANT %s ON %s.election_%s TO %s", list, l.Name, table, user))
			}
			c := l.User.Clone()
			c.User, c.Passwd = strings.Trim(strings.Split(user, "@")[0], "'"), "only-this"
			n := openNode(t, "n", Options{Config: c})
			ctx, cancel := n.ctx()
			defer cancel()
			if err := n.Announce(ctx, backend.Member{Candidate: n.me, TTL: time.Second}); err != nil {
				t.Errorf("missing %s: the member's record: %v", missing, err)
			}
			errs := n.Preflight(ctx, []backend.Bid{
				{Election: "led", Candidate: n.me, TTL: time.Second},
				{Election: "new", Candidate: n.me, TTL: time.Second},
				{Election: "long", Candidate: n.me, TTL: time.Minute},
			})
			fine := strings.HasPrefix(missing, "nothing")
			for i, err := range errs {
				switch {
				case i == 2 && (!errors.Is(err, backend.ErrDenied) || fine && !strings.Contains(err.Error(), "UPDATE")):
					t.Errorf("missing %s, with a TTL above the table's: %v; want ErrDenied and the statement", missing, err)
				case i < 2 && fine && err != nil:
					t.Errorf("missing %s: %v", missing, err)
				case i < 2 && !fine && (!errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE ON")):
					t.Errorf("missing %s: %v; want ErrDenied and the statement that grants it", missing, err)
				}
			}
		}
		if n := l.number(t, "SELECT COUNT(*) FROM election_lease"); n != 2 {
			t.Errorf("there are %d rows of leases, want 2: Preflight must create none", n)
		}
	})
}

// A server that is read-only refuses the statements, too.
func TestPreflightRefusesAReadOnlyServer(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		l.exec(t, "SET GLOBAL read_only = 1")
		n := l.node(t, "n")
		ctx, cancel := n.ctx()
		defer cancel()
		if errs := n.Preflight(ctx, []backend.Bid{{Election: "a", Candidate: n.me, TTL: time.Second}}); !errors.Is(errs[0], backend.ErrUnavailable) {
			t.Errorf("on a server that is read-only: %v; want ErrUnavailable", errs[0])
		}
	})
}
