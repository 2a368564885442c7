package mutants

import "testing"

var differential = check{"./backend/lease", "TestTheProtocolAnswersAsMemoryDoes", []string{"-diff.histories=100"}}

func protocol(tests string) check { return check{"./backend/lease", tests, nil} }

// overLease runs the simulation over the lease protocol.
var overLease = check{"./election", "TestSimulationOverLease$", []string{"-sim.hours=2800"}}

func TestEachBrokenLeaseProtocolIsFound(t *testing.T) {
	tryAll(t, "../backend/lease/", leaseMutants)
}

var leaseMutants = []mutant{
	// Taking over.
	{"a takeover does not check the session as it was read", "acquire.go",
		"g.checksSession() && !checked[key] {",
		"g.checksSession() && false {", "a takeover needs the session as it was just read", protocol("TestATakeoverNeeds")},
	{"a takeover checks the newest heartbeat, not the watched one", "acquire.go",
		"(st.own || st.Unchanged(expected))",
		"(st.own || st.Term == expected.Term)", "S13:", overLease},
	{"a bid may be granted though the lease was renewed", "acquire.go",
		"(st.own || st.Unchanged(expected))",
		"(st.own || st.Term == expected.Term)", "is refused for 0s in memory, and granted", differential},
	{"a missing session frees", "read.go",
		"		s.session.Key = key\n",
		"		s.session.Key = key\n		if s.session.Version == \"\" {\n			s.ObserveFor = 0\n		}\n", "a missing session frees nothing", protocol("TestALostSession|TestAMissingSession")},
	{"a session of another creation is the same", "read.go",
		"renewalSign{s.session.Created, of.Of(s.Election)}",
		"renewalSign{\"\", of.Of(s.Election)}", "the heartbeat of another creation counts as unrenewed", protocol("TestALateCreation")},
	{"a session of another generation renews", "read.go",
		"case ok && of.Generation == s.record.Session:",
		"case ok:", "a session renews only the leases that were moved to it", protocol("TestALeaseThatWasNotMoved")},
	{"a suspect leftover is granted", "read.go",
		"s.heldBy(v.nonce) && !s.suspect {",
		"s.heldBy(v.nonce) {", "may have been led by another since", protocol("TestARestoredLeftover")},
	{"a leftover that was released is granted", "read.go",
		"if _, may := b.held[s.Election]; may && v.nonce",
		"if may := true; may && v.nonce", "is free for its former holder", protocol("TestAnUnknownLeftover")},

	// Renewals and releases.
	{"a renewal does not check the records", "renew.go",
		"b.writeSession(ctx, s, next, records)",
		"b.writeSession(ctx, s, next, records[:0])", "S13:", overLease},
	{"a renewal does not check the records as they were", "renew.go",
		"b.writeSession(ctx, s, next, records)",
		"b.writeSession(ctx, s, next, records[:0])", "a lease that was taken over is not renewed", protocol("TestARenewalNeeds")},
	{"many records are not compared after the write", "renew.go",
		"b.invalidate(r.held[part[n]].Election)\n",
		"_ = n\n", "only a lease whose record is as it was granted is renewed", protocol("TestManyLeases")},
	{"a deletion that is noticed late is watched no longer", "read.go",
		"b.longest(v)) + b.unnoticed(v)",
		"b.longest(v)) + 0*b.unnoticed(v)", "for as long as its deletion is not noticed", protocol("TestADeletionThatIsNoticedLate")},
	{"a renewal without an answer counts", "session.go",
		"return false, nil, b.rereadSession(ctx, s)",
		"return check != nil, nil, nil",
		"a renewal counts only if it has written a heartbeat", protocol("TestARenewalFollows")},
	{"a renewal that was refused counts", "session.go",
		"return false, nil, b.rereadSession(ctx, s)",
		"return check != nil, nil, nil", "S13:", overLease},
	{"a renewal renews all leases of the process", "renew.go",
		"s.value.Renew(names, b.othersHeld(names, s), b.limits.Now())",
		"s.value.Renew(names, nil, b.limits.Now())", "a lease expires though its session goes on", protocol("TestALeaseThatIsNotRenewed")},
	{"a deposed leader is renewed", "renew.go",
		"return g, st.Request.Kind != backend.Depose",
		"return g, true", "a deposed leader is not renewed", protocol("TestARequestDoesNot")},
	{"a release leaves a bid on its way alone", "release.go",
		"case h.Term != 0 || !b.mayHold(h.Election):",
		"case true:", "Release leaves nothing on its way", protocol("TestABidThatWasReleased")},
	{"a release frees a restored record", "release.go",
		"	if st.suspect || !b.mayHold(st.Election) {\n		r.Epoch = \"\"",
		"	if false {\n		r.Epoch = \"\"", "a restored record that was released is watched all the same", protocol("TestAReleaseFrees")},
	{"a bid that was refused ends the bidder's lease", "acquire.go",
		"case leftover && st.own:",
		"case leftover && st.own && i < 0:", "TestTheProtocolAnswersAsMemoryDoes", differential},

	// Deleted, restored and edited records.
	{"a deleted record is free at once", "read.go",
		"s.suspect = s.seen > 0 || b.mayMiss(v)",
		"s.suspect = b.mayMiss(v) && v.wentBack > 0", "a deleted record is no vacancy", protocol("TestADeletedRecord")},
	{"an older term than was read is believed", "read.go",
		"r.Epoch != v.epoch || r.Term < s.seen",
		"r.Epoch != v.epoch", "b may still trust its lease", protocol("TestAnOlderTerm")},
	{"records are not counted", "read.go",
		"return fresh || v",
		"_ = fresh\n	return v", "must count the records", protocol("TestADeletionIsNoticed")},
	{"another store is believed at once", "read.go",
		"b.replaced > 0 && since >= 0",
		"b.replaced > 0 && since < 0", "a leads in the store that b has read before", protocol("TestAnotherStoreIsWatched")},
	{"a deletion does not begin a watch anew", "read.go",
		"ever, _ := v.deletions() // only this",
		"ever := int64(0) // only this", "a watch of the first absence counts for the second", protocol("TestARecordDeletedTwice")},
	{"the greatest TTL that was read is forgotten", "read.go",
		"		b.longestTTL = max(b.longestTTL, s.ObserveFor) // the record may be deleted\n",
		"", "a process remembers the TTLs that it has read", protocol("TestAllItemsDeleted")},
	{"a restored record is free", "read.go",
		"s.suspect = !s.valid || s.item.Old || r.Epoch != v.epoch",
		"s.suspect = !s.valid || r.Epoch != v.epoch", "may have been led since", protocol("TestARestoredVacancy")},
	{"a record of another epoch is free", "read.go",
		"s.suspect = !s.valid || s.item.Old || r.Epoch != v.epoch",
		"s.suspect = !s.valid || s.item.Old", "a restored record that was released is watched all the same", protocol("TestAReleaseFrees")},
	{"an edited record is watched for its own TTL", "read.go",
		"r.Term != 0 && !s.item.Edited && r.Election == s.Election",
		"r.Term != 0 && r.Election == s.Election", "an edited record is watched for the greatest TTL", protocol("TestAnEdited")},

	// What is remembered.
	{"a remembered record is compared by its version alone", "cache.go",
		"it.Remembered, it.Age = true, -1",
		"it.Age = -1", "a bid by a remembered vacancy is granted", protocol("TestARememberedVacancy")},
	{"Observe says by what is remembered that a lease is unchanged", "cache.go",
		"		if seen[i].Version == \"\" || !ordered || !s.Differs(seen[i]) {\n			return nil, false\n		}",
		"		if seen[i].Version == \"\" || !ordered {\n			return nil, false\n		}\n		if !s.Differs(seen[i]) {\n			continue\n		}", "that a lease is unchanged is true at the call", differential},
	{"Listen keeps what it was not told of", "observe.go",
		"c.clearItems() // the reading",
		"c.position = 0 // the reading", "Listen must not miss a change of a record", protocol("TestListenMisses")},
}

func terms(tests string) check { return check{"./backend", tests, nil} }

func TestEachBrokenTermIsFound(t *testing.T) { tryAll(t, "../backend/", termMutants) }

var termMutants = []mutant{
	{"damage makes no term jump", "term.go", "	if jump {\n", "	if jump = false; jump {\n", "a clock that was wrong by", terms("TestAJumpExceeds")},
	{"damage makes a term jump by an hour", "term.go", "const TermJump = 86_400_000_000", "const TermJump = 3_600_000_000", "a clock that was wrong by", terms("TestAJumpExceeds")},
	{"a jump is counted from the last term", "term.go",
		"term = clock + days*TermJump",
		"term = max(last, clock+0*days) + TermJump", "ahead of the clock", terms("TestTermsAreNeverMore")},
	{"a known term that is ahead of a jump is not exceeded", "term.go",
		"days += (last - clock) / TermJump",
		"days = max(days, 1)", "a zone: a jump from", terms("TestAJumpFromATermAhead")},
	{"a term that is ahead of the clock does not grow", "term.go",
		"min(last+uint64(grown)-1, MaxTerm)",
		"min(last+0*uint64(grown), MaxTerm)", "known was", terms("TestTermsGrowWhateverIsLost")},
	{"a term that is ahead of the clock grows as fast as the clock", "term.go",
		"(16*time.Microsecond), 1), TermJump/15)",
		"time.Microsecond, 1), TermJump)", "more than a day after terms were ahead of the clock", terms("TestTermsAreNeverMore")},
}
