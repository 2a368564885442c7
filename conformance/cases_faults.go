package conformance

import (
	"slices"
	"time"
)

// faultCases harm the store itself while managers use it, if the harness has functions
// for that. The checker looks for two leaders and for terms that decrease.
var faultCases = []Case{
	{Rule: "S1", Name: "one leader through a restart", Run: throughFault(FaultRestart, ""), Fault: FaultRestart,
		Says: "A restart of the store never leads to two leaders, and afterwards there is exactly one."},
	{Rule: "S1", Name: "one leader through a pause", Run: throughFault(FaultPause, ""), Fault: FaultPause,
		Says: "A store that hangs and continues never leads to two leaders, and afterwards there is exactly one."},
	{Rule: "S1", Name: "one leader through a cut", Run: throughFault(FaultCut, ""), Fault: FaultCut,
		Says: "A cut between all clients and the store never leads to two leaders, and afterwards there is exactly one."},
	{Rule: "S1", Name: "one leader through a cut of answers", Run: throughFault(FaultCutReplies, ""), Fault: FaultCutReplies,
		Says: "A store that receives requests and cannot answer never leads to two leaders, and afterwards there is exactly one."},
	{Rule: "S1", Name: "one leader through a failover", Run: throughFault(FaultFailover, ""), Fault: FaultFailover, needs: []need{durableTerms},
		Says: "A failover, even one that loses the last writes, never leads to two leaders or to the same term twice. Afterwards there is exactly one leader."},
	{Rule: "S1", Name: "one leader through a deleted record", Run: throughFault(FaultDeleteRecord, "jobs"), Fault: FaultDeleteRecord,
		Says: "Deleting the record during a leadership never leads to two leaders or to the same term twice. Afterwards there is exactly one leader."},
}

func throughFault(fault, name string) func(*Trial) {
	return func(t *Trial) {
		leader, others := t.startWithLeader(3, "jobs", nil)
		t.harmTwice(append(others, leader), [2]time.Duration{t.TTL / 2, 2 * t.TTL}, func(on bool) {
			endsByItself := !slices.Contains([]string{FaultPause, FaultCut, FaultCutReplies, FaultHide}, fault)
			if on || !endsByItself {
				t.inject(fault, on, name)
			}
		})
	}
}

// harmTwice begins harm and ends it after each of these times, and expects one leader afterwards.
func (t *Trial) harmTwice(members []*participant, lengths [2]time.Duration, harm func(on bool)) {
	reader := t.client("reader")
	for _, length := range lengths {
		t.sleep(t.TTL)
		harm(true)
		t.sleep(length)
		harm(false)

		// After a change of server or the loss of a record, a store may require
		// challengers to observe for longer than a TTL. ObserveFor says so.
		var observeFor time.Duration
		t.waitUntil(2*t.takeoverBound(), "an answer from the store", func() bool {
			l, err := reader.readQuickly("jobs")
			observeFor = max(l.ObserveFor, 0)
			return err == nil
		})
		t.waitForLeader(observeFor+2*t.takeoverBound(), members...)
		t.sleep(t.takeoverBound())
		t.waitForOneLeader(members...)
	}
}
