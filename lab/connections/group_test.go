package connections

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// The primary of a group dies, and the group elects the next. That is another server to the members: one of them leads
// again after max_ttl, in a later term. Three servers take the processors from the others: it runs before those.
func TestAGroupThatElectsAPrimaryCostsMaxTTL(t *testing.T) {
	const ttl, greatest = 4 * time.Second, 8 * time.Second
	group := startGroup(t)
	proxy := startHAProxy(t, group[0].Addr(), group[1].Addr())
	db := withTable(t, group[0])
	var members []*election.Election
	for _, id := range []string{"a", "b"} {
		b, err := mysql.Open(mysql.Options{Config: at(db.User, proxy.Addr()), MaxTTL: greatest})
		e := join(t, id, ttl, b, err)
		testbed.NoError(t, e.Lead(nil))
		members = append(members, e)
	}
	somebodyLeads(t, members)
	before := max(members[0].Current().Term, members[1].Current().Term)

	group[0].Kill(t)
	const vote = time.Minute // the group waits for the dead one for about 10 s
	if gap := without(t, "the primary is dead", members, 75*time.Second); gap < ttl || gap > vote+greatest {
		t.Errorf("nobody led for %v after the primary was killed", gap)
	}
	somebodyLeads(t, members)
	if after := max(members[0].Current().Term, members[1].Current().Term); after <= before {
		t.Errorf("term %d of the first primary is followed by term %d of the next", before, after)
	}
}

// startGroup starts a group of three servers. The first one is its primary, and the second one the next.
func startGroup(t *testing.T) (group []*testbed.Server) {
	t.Helper()
	var seeds []string
	for i := range 3 {
		group = append(group, testbed.StartPrimary(t, testbed.MySQL, testbed.Options{Args: []string{
			"--plugin-load-add=group_replication.so", "--loose-group-replication-start-on-boot=OFF", "--report-host=127.0.0.1",
			"--loose-group-replication-group-name=7f3a2c10-5b6d-4e8f-9a01-b2c3d4e5f607",
			"--loose-group-replication-communication-stack=MYSQL",
			"--loose-group-replication-consistency=BEFORE_ON_PRIMARY_FAILOVER",
			fmt.Sprintf("--loose-group-replication-member-weight=%d", 90-20*i),
		}}))
		seeds = append(seeds, group[i].Addr())
		group[i].Exec(t, "CHANGE REPLICATION SOURCE TO SOURCE_USER='root' FOR CHANNEL 'group_replication_recovery'",
			fmt.Sprintf("SET GLOBAL group_replication_local_address = '%s'", seeds[i]),
			fmt.Sprintf("SET GLOBAL group_replication_group_seeds = '%s'", strings.Join(seeds, ",")),
			fmt.Sprintf("SET GLOBAL group_replication_bootstrap_group = %t", i == 0), "START GROUP_REPLICATION",
			"SET GLOBAL group_replication_bootstrap_group = OFF")
	}
	testbed.Eventually(t, patience, "three servers are online", func() (err error) {
		var online int
		const members = "SELECT count(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'"
		if err = group[0].Admin().QueryRowContext(t.Context(), members).Scan(&online); err == nil && online != len(group) {
			err = fmt.Errorf("%d are", online)
		}
		return err
	})
	return group
}
