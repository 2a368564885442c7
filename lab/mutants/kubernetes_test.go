package mutants

import (
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// kubernetes runs tests of backend/kubernetes, which is a module of its own, on an API server.
func kubernetes(tests string) check { return check{kubernetesModule, "^(" + tests + ")$", nil} }

// kubernetesSuite runs one case of the conformance suite on an API server.
func kubernetesSuite(title string) check {
	return check{kubernetesModule, "TestConformance$/cases/^" + strings.ReplaceAll(title, " ", "_") + "$", nil}
}

const kubernetesModule = "./backend/kubernetes"

func TestEachBrokenKubernetesIsFound(t *testing.T) {
	onServers(t, func(t *testing.T) { testbed.StartKubernetes(t, testbed.Options{}) })
	tryAll(t, "../backend/kubernetes/", kubernetesMutants)
}

var kubernetesMutants = []mutant{
	// Writes.
	{"a write replaces whatever there is", "write.go",
		"		written, err = b.client.Update(ctx, l, meta.UpdateOptions{})\n",
		"		if now, err := b.client.Get(ctx, l.Name, meta.GetOptions{}); err == nil {\n			l.UID, l.ResourceVersion = now.UID, now.ResourceVersion\n		}\n		written, err = b.client.Update(ctx, l, meta.UpdateOptions{})\n",
		"b was granted it meanwhile", kubernetes("TestABidOverARememberedVacancyIsLate")},
	{"what was stored is not compared with what was sent", "write.go",
		"		if written.Annotations[key] != text {",
		"		if false && written.Annotations[key] != text {", "TestALeaseThatIsChangedOnItsWayIsNotGranted", kubernetes("TestALeaseThatIsChangedOnItsWayIsNotGranted")},
	{"two writes of the same are one", "write.go",
		"	r.Write = rand.Int64()\n",
		"	r.Write = rand.Int64() * 0\n", "the second request has left the Lease at version", kubernetes("TestARepeatedRequestIsWritten")},
	{"a bid may be granted though the lease was renewed", "hold.go",
		"if !s.own && !s.Unchanged(bid.Expected) ||",
		"if !s.own && s.Term != bid.Expected.Term ||", "A3 a bid succeeds only on the expected lease: rule violated", kubernetesSuite("A3 a bid succeeds only on the expected lease")},
	{"a seal that the bidder has not seen is ignored", "hold.go",
		" || s.MovedTo != bid.Expected.MovedTo {",
		" {", "the lease has moved, which the bid does not expect", kubernetes("TestABidDoesNotBreakASeal")},

	// Renewals and releases.
	{"a deposed leader is renewed", "hold.go",
		" || s.Request.Kind == backend.Depose {",
		" {", "R5 a renewal is refused after a deposition: rule violated", kubernetesSuite("R5 a renewal is refused after a deposition")},
	{"a renewal in another term is granted", "hold.go",
		"if !s.own || s.Term != h.Term ||",
		"if !s.own ||", "R2 a renewal in another term is refused: rule violated", kubernetesSuite("R2 a renewal in another term is refused")},
	{"a release leaves a bid on its way alone", "hold.go",
		"case h.Term == 0:",
		"case false:", "the late bid", kubernetes("TestALateBidIsRefused")},
	{"anybody releases a lease", "hold.go",
		"case s.Holder.Nonce == nonce && (",
		"case (", "X4 term 0 releases the caller's lease only: rule violated", kubernetesSuite("X4 term 0 releases the caller's lease only")},

	// Readings.
	{"a renewal is no other version", "state.go",
		"s.Version = strconv.FormatUint(uint64(r.Heartbeat), 16)",
		"s.Version = r.Nonce", "R1 a renewal is a write with a fresh heartbeat: rule violated", kubernetesSuite("R1 a renewal is a write with a fresh heartbeat")},
	{"the watch says that a lease is unchanged", "reading.go",
		"b.changesTold(seen); changed != nil {",
		"b.changesTold(seen); changed != nil || b.watch != nil {", "want the lease, which was renewed", kubernetes("TestAWatchThatHangsHidesNothing")},
	{"a bid has the term after the record's", "hold.go",
		"backend.NextTerm(last, s.suspect, bid.MinTerm, now)",
		"backend.NextTerm(min(last, s.Term), s.suspect, 0, now)", "S4 terms exceed MinTerm: rule violated", kubernetesSuite("S4 terms exceed MinTerm")},

	// Leases that were deleted, edited, copied or restored.
	{"a deleted Lease is free though the census has it", "census.go",
		"		return c.Partial || c.Made[madeKey(name)] > 0",
		"		return c.Partial", "its Lease was deleted, which a member that starts later reads", kubernetes("TestADeletedLeaseIsWatched")},
	{"a census that was deleted has no elections", "census.go",
		"		return b.led() // the census was deleted: nobody knows what else was",
		"		return false // the census was deleted: nobody knows what else was", "it may have been led", kubernetes("TestADeletedCensusFreesNothing")},
	{"the census does not keep the greatest TTL", "census.go",
		"	next.MaxTTL = max(next.MaxTTL, ttl, b.longest)",
		"	next.MaxTTL = max(next.MaxTTL, MinTTL)", "its Lease was deleted, and it is watched for", kubernetes("TestADeletedLeaseIsWatchedForTheGreatestTTL")},
	{"a greater TTL is granted before the census has it", "census.go",
		"if election == \"\" && c != nil && c.MaxTTL >= ttl {",
		"if election == \"\" && c != nil {", "its Lease was deleted, and it is watched for", kubernetes("TestADeletedLeaseIsWatchedForTheGreatestTTL")},
	{"an election that was led and deleted meanwhile is granted", "census.go",
		"if missing != \"\" && now.Version != missing {",
		"if missing != \"\" && false {", "b trusts its lease of term", kubernetes("TestABidForAMissingLeaseIsLate")},
	{"a record's digest is not checked", "record.go",
		" || l.Annotations[sumKey] != digest(text) {",
		" {", "although its TTL was edited", kubernetes("TestAnEditedLeaseIsWatched")},
	{"another Lease with the same record is the same", "state.go",
		"(r.Election != election || r.Epoch != string(s.lease.UID) ||",
		"(r.Election != election ||", "its record is from the past, when it was vacant", kubernetes("TestALeaseFromABackupIsWatched")},
	{"a restore is not noticed", "reading.go",
		"known.version > o.version && !known.at",
		"false && known.version > o.version && !known.at", "an older copy was restored", kubernetes("TestARestoredClusterIsWatched")},
	{"a restored record is believed", "state.go",
		"	s.suspect = damaged || old || r == nil && b.wasMade(s.name)",
		"	_ = old\n	s.suspect = damaged || r == nil && b.wasMade(s.name)", "an older copy was restored", kubernetes("TestARestoredClusterIsWatched")},
	{"a restored lease that is released is free", "hold.go",
		"	if s.suspect { // a later grant may be lost",
		"	if false { // a later grant may be lost", "which the copy does not have", kubernetes("TestARestoredClusterIsWatched")},

	{"a copy of another election's Lease is believed", "state.go",
		"(r.Election != election || r.Epoch != string(s.lease.UID) ||",
		"(r.Epoch != string(s.lease.UID) ||", "its record is that of another election", kubernetes("TestAnEditedLeaseIsWatched")},
	{"a copy that is put back is believed", "state.go",
		" || r.Term < s.known)",
		")", "a leads, and has not noticed", kubernetes("TestACopyThatIsPutBackFreesNothing")},
	{"a restored term is used again", "hold.go",
		"backend.NextTerm(last, s.suspect, bid.MinTerm, now)",
		"backend.NextTerm(last, false, bid.MinTerm, now)", "want it granted with a greater term", kubernetes("TestARestoredClusterIsWatched")},

	// Members of client-go.
	{"leaseDurationSeconds is rounded down", "record.go",
		"int32((ttl + time.Second - 1) / time.Second)",
		"int32(ttl / time.Second)", "leaseDurationSeconds is 1", kubernetes("TestRecordsAreReadAsTheyWereWritten")},
	{"a member of client-go is watched for the least TTL", "state.go",
		"s.TTL = max(time.Duration(seconds(spec))*time.Second, MinTTL)",
		"s.TTL = MinTTL", "want pod-1_x, watched for 15s", kubernetes("TestALeaderOfClientGoIsWatched")},
	{"an emptied spec over a lease of ours frees it", "state.go",
		"s.ObserveFor = max(time.Duration(r.TTL), MinTTL)",
		"s.ObserveFor = 0", "b leads, and has not noticed", kubernetes("TestALateReleaseOfClientGoFreesNothing")},
	{"a spec without a holder is free", "state.go",
		" || holder(spec) == \"\" && seconds(spec) != 1 {",
		" {", "its holder was cleared", kubernetes("TestAClearedForeignLeaseIsWatched")},
	{"a member of client-go hides the leader before it", "state.go",
		"s.ObserveFor = max(s.ObserveFor, s.TTL)",
		"s.ObserveFor = s.TTL", "a led a moment ago", kubernetes("TestAShorterForeignLeaseFreesNothing")},
	{"members of client-go may lead what has moved", "record.go",
		"	case r.MovedTo != \"\":\n",
		"	case r.MovedTo == \"\" && false:\n", "the Lease is held by", kubernetes("TestASealedLeaseIsHeldForMembersOfClientGo")},
}
