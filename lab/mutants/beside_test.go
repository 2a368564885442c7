package mutants

import (
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// pair runs a rule of package beside, or its conformance suite.
func pair(test string) check { return check{"./backend/beside", test, nil} }

// table runs tests of a fleet's table, on a real server.
func table(tests string) check { return check{"./backend/mysqltable", tests, nil} }

func TestEachBrokenCombinerIsFound(t *testing.T) { tryAll(t, "../backend/beside/", besideMutants) }

var besideMutants = []mutant{
	{"a member that gets the lease and not the lock leads", "acquire.go",
		"			t.answer.Err = r.Err\n			back = append(back, t)\n",
		"", "another program has been quicker", pair("TestRules.*/a_lease_without")},
	{"the inner lease is given back first", "renew.go",
		"	if owned != nil {\n		if err := b.lock.Drop(ctx, owned); err != nil {\n			return err\n		}\n	}\n",
		"	if err := b.inner.Release(ctx, held); err != nil {\n		return err\n	}\n	if owned != nil {\n		if err := b.lock.Drop(ctx, owned); err != nil {\n			return err\n		}\n	}\n",
		"the first bid after the news", pair("TestRules.*/a_follower_is_told")},
	{"a lock is not given back", "renew.go",
		"	if owned != nil {\n		if err := b.lock.Drop(ctx, owned); err != nil {",
		"	if false {\n		if err := b.lock.Drop(ctx, owned); err != nil {", "the lock is still held", pair("TestRules.*/a_guard")},
	{"a renewal counts for the time of the lease", "renew.go",
		"		a.ValidFor = min(a.ValidFor, r.ValidFor)\n",
		"", "a lock that is sure for a second", pair("TestRules.*/a_leader_trusts")},
	{"a bid is made though the lock is firm", "acquire.go",
		"case p.state.Firm && (p.state.Free || !p.ours()) && !leftover:",
		"case false:", "the inner lease was taken", pair("TestRules.*/a_program_that_renews")},
	{"a mark is written without a seal", "renew.go",
		"		if h.MovedTo == \"\" || answers[i].Outcome == backend.Granted {",
		"		if true {", "the lease is marked", pair("TestRules.*/there_is_no_mark")},
	{"a dead member's lock is another program's", "observe.go",
		"return p.state.Term == p.inner.Term ||",
		"return p.state.Term == 0 ||", "a dead member's lease is read as", pair("TestRules.*/a_dead_member")},
}

// Each check starts a server, so "go test" tries none of these by default.
func TestEachBrokenTableIsFound(t *testing.T) {
	if !*all && *only == "" {
		t.Skip("starts a server for each mutant: needs -mutants.all or -mutants.only")
	}
	testbed.Shared(t, testbed.MariaDB)
	tryAll(t, "../backend/mysqltable/", tableMutants)
}

var tableMutants = []mutant{
	{"another program's row is taken before it has expired", "lock.go",
		"		statement = takeExpiredSQL\n",
		"", "another_program's_lock_is_firm", table("TestTheTableObeys")},
	{"a row is trusted for a second too long", "lock.go",
		"trust = t.lifetime - r.age",
		"trust = t.lifetime + 2*time.Second - r.age", "no_other_program_takes_a_lock_within_ValidFor", table("TestTheTableObeys")},
	{"a row is given back in any term", "rows.go",
		"RIGHT({holder}, 17) = ?`",
		"RIGHT({holder}, 17) <> ?`", "a_late_statement_of_another_term", table("TestTheTableObeys")},
	{"a late renewal breaks the seal", "rows.go",
		"UPDATE {table} SET {at} = NOW() WHERE ({key}, {holder}) IN (?) AND {at} <> '` + sealed + `'`",
		"UPDATE {table} SET {at} = NOW() WHERE ({key}, {holder}) IN (?)`", "has taken a sealed row", table("TestASealKeeps")},
	{"a locked row holds up the others", "rows.go",
		"FOR UPDATE SKIP LOCKED`",
		"`", "beside a locked row another one is renewed", table("TestARowThatSomebodyKeepsLocked")},
}
