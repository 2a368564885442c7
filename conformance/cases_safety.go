package conformance

// cutOffCases cut a leader off, each in another way, which provokes what the checker looks for in every case of managers:
// violations of S1, S2, S4, S5, S8 and S10. They are separate cases, so that they can run in parallel.
func cutOffCases() (cases []Case) {
	for _, cut := range []struct {
		name   string
		silent bool // no request of the leader reaches the store
		fate   func(t *Trial, c Call) Fate
	}{
		{"requests are lost", true, func(t *Trial, c Call) Fate { return Fate{Lost: true} }},
		{"answers are lost", false, func(t *Trial, c Call) Fate { return Fate{AnswerLost: true} }},
		{"requests are late", false, func(t *Trial, c Call) Fate { return Fate{Before: t.TTL} }},
		{"calls fail", true, func(t *Trial, c Call) Fate { return Fate{Err: errInjected} }},
		{"renewals get no answer", false, func(t *Trial, c Call) Fate { return Fate{AnswerLost: c.Method == "Renew"} }},
		{"renewals are lost", false, func(t *Trial, c Call) Fate { return Fate{Lost: c.Method == "Renew"} }},
	} {
		cases = append(cases, Case{Rule: "S1", Name: "a leader whose " + cut.name, needs: []need{exclusive},
			Says: "The intervals during which Leading() is true in different processes never overlap, whichever process is cut off from the store and for however long.",
			Run: func(t *Trial) {
				safeCutOff(t, cut.silent, func(c Call) Fate { return cut.fate(t, c) })
			}})
	}
	return cases
}

func safeCutOff(t *Trial, silent bool, how func(Call) Fate) {
	a, others := t.startWithLeader(2, "jobs", nil)
	b := others[0]

	a.node.wire.Decide(how)
	end := t.now() + t.TTL + 2*t.takeoverBound()
	if silent && !t.lastsWithProcess() { // otherwise the leader's bids or renewals may reach the store
		t.waitUntil(end-t.now(), "the follower to lead after the leader was cut off", b.Leading)
	}
	t.sleep(end - t.now())
	if silent && t.lastsWithProcess() {
		require(expect(!b.Leading(), "no second leader while the process of the first one lives", b.Current()))
	}

	a.node.wire.Decide(nil)
	t.sleep(t.takeoverBound())
	t.waitForLeader(t.TTL, a, b)
}
