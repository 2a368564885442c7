// Package election elects one leader among processes, on a store that they already share,
// and tells every one of them who leads.
//
//	m, err := election.New(store, election.Options{}) // a backend: mysql, memory, …
//	e, err := m.Join("billing/nightly")
//	err = e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
//		return bill(ctx, lead.Term) // the term fences what it writes
//	})
//
// # What is promised
//
// Assumptions: the clocks of all hosts tick at nearly the same rate (within
// [Options.ClockMargin] over one TTL; what they show does not matter), and the store keeps
// what it has acknowledged. docs/design/election.md says what a failover may lose. Under these:
//
//   - Never two leaders. [Election.Leading] is never true in two processes at once, whatever
//     is paused, cut off, restarted or set to another time. At times there is no leader.
//   - Fenced. Each leadership has a term greater than every earlier one of that election.
//   - Live. After the last fault, an election with a candidate that can lead has exactly one
//     leader within TTL + RenewEvery + CallTimeout, and
//     FailoverDelay + IncumbentGrace more after a failure. It may be RenewEvery/8 more where many
//     candidates take turns, and 2 * (RenewEvery + CallTimeout) more where they have priorities.
//   - Sticky. Only a fault, a resignation or a request ends a leadership: an operator's, or one of
//     a member with [Options.Reclaim].
//
// A process that is stopped between Leading and its next write may write late; no lease can prevent that.
// Send [Leadership.Term] with every write, and let the receiver refuse smaller terms; on MySQL, mysql.Fence
// does that. Anybody who can write to the store can depose a leader.
//
// # A leadership
//
//	          Lead, Run, Campaign, Try
//	observer ------------------------> candidate <--------------------.
//	                                       | granted                  |
//	                                       v                          |
//	                                    leading                       |
//	               renewal refused, or    |   | function returned,    |
//	               the deadline passes    |   | resign, pause, health,|
//	                                      v   v nominee, depose       |
//	                                    lost  stepping down           |
//	               wait for the function, |   | wait for the function,|
//	                   and the deadline   |   | renew unless deposed  |
//	                                      v   v                       |
//	                                    releasing --------------------'
//
// The deadline is the time at which the last granted request was sent, plus the TTL, less ClockMargin. At
// that instant Leading is false, whether or not a call hangs. A challenger (a candidate while another process
// holds the lease) bids only after it has observed the lease unchanged for the holder's TTL on its own clock,
// or the store says that the lease is free. To step down, a leader makes Leading false, cancels its
// function's context (the cause is an [*EndError]), waits for the function, and releases the lease. After a
// loss it releases nothing before the deadline.
//
// # Inside
//
// machine.go is a pure state machine: step(now, input) returns actions. simulation_test.go runs it through
// thousands of hours of faults. manager.go is the shell around it: one loop and one timer.
package election
