// Package election elects one leader among processes, on a store that they
// already share, and tells every one of them who leads.
//
//	m, err := election.New(store, nil)           // a backend: mysql, memory, …
//	e, err := m.Join("billing/nightly")
//	err = e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
//		return bill(ctx, lead.Term)          // the term fences what it writes
//	})
//
// This page is the specification. Package backend is the other side of it.
//
// # What is promised
//
// Two assumptions. Clocks of different machines may disagree by any amount, but
// tick at nearly the same rate: within Options.ClockMargin over one TTL. The store
// keeps what it has acknowledged, except that a failover may lose its tail,
// provided that it leads to a server that was never the primary, and that nothing
// leads back to a former one within the greatest TTL. Under them:
//
//   - Never two. The intervals during which [Election.Leading] is true in
//     different processes never overlap, whatever is paused, cut off, restarted
//     or set to another time. For a short time there may be no leader.
//   - Fenced. Every leadership has a term greater than every earlier one of that
//     election, for ever: through release, expiry, deleted records, restarts and
//     a failover that lost writes.
//   - Live. Once the last fault has healed, an election with a candidate that can
//     lead has exactly one leader within TTL + RenewEvery + CallTimeout (+ FailoverDelay +
//     IncumbentGrace after a failure).
//   - Sticky. The leader changes only by a fault, a request of an operator, or a
//     resignation.
//
// What no lease can promise: that a process which was stopped between asking
// Leading and the next write does not write late. Hand [Leadership.Term] to
// whatever you write to and let it refuse smaller terms; on MySQL, mysql.Fence
// makes a transaction that commits only under the current term. A hypervisor
// that stops all of a guest's clocks breaks the first assumption; only the fence
// helps there. Whoever can write to the store can depose any leader.
//
// # A leadership
//
//	          Lead, Run, Campaign, Try
//	observer ------------------------> candidate <--------------------.
//	                                       | granted                  |
//	                                       v                          |
//	                                    leading                       |
//	      refused, or the deadline passes |   | resign, pause, health,|
//	                                      v   v nominee, depose, leave|
//	                                    lost  stepping down           |
//	               wait for the function, |   | wait for the function,|
//	                   and the deadline   |   | renewing meanwhile    |
//	                                      v   v                       |
//	                                     release ---------------------'
//
// Trust. The lease is trusted until the moment before the request left, plus the
// TTL, less ClockMargin. At that instant Leading is false, whether or not a call
// hangs or the loop runs: it compares a clock with the deadline at each call.
// That clock counts the time for which the machine was suspended. An answer that
// comes after the deadline does not bring a leadership back; that needs a new bid and
// a new term.
//
// Takeover. Where the store does not expire leases itself, a challenger bids
// only after it has watched the lease, unchanged, for the holder's TTL on its own
// clock, counted from when it received the first such answer; the bid is a
// compare-and-swap over exactly what was watched. No clock of the store is asked.
// The price: a fleet that was killed whole waits one TTL when it comes back.
//
// Stepping down. In this order: not leading; the function's context is cancelled,
// with a [*LostError] as its cause; the function returns; the lease is released.
// If it does not return within StepDownTimeout, a [Notice] event says so and the
// lease is left to run out. After a loss nothing is released before the deadline.
// The function of one term has returned before the same process bids again, and
// before Close returns.
//
// # Events
//
// Watchers hear every change of leader in order, on every node, leader or not. An
// [Event] names the leader, the previous leader, the term, whether it is this
// process, and the [Reason]. "Nobody leads" ([Vacant]) and "the store cannot be
// reached, so nothing can be said" ([Unknown]) are events. A term is never
// reported after a greater one.
//
// # Operators
//
// Nominate, Depose, Pause, Resume, Resign and the health check never make two
// leaders: all of them end in the leader's own stepping down. FailoverDelay and
// IncumbentGrace hold back takeovers after a failure, never after an orderly release.
// They rest on what the store remembers of the last leadership, and are promises only
// if all members have the same values.
//
// # Load
//
// A leader makes one Renew in RenewEvery for all that it leads, a follower of a
// store that must be read one Observe, right after each expected renewal, and
// everybody one Announce in a TTL. Calls do not grow with elections, except that
// a backend may cut them into chunks. Nothing polls faster because it fails.
//
// # Inside
//
// machine.go is a pure state machine: step(now, input) returns actions. It is
// simulated over thousands of hours with faults in simulation_test.go. manager.go
// is the shell around it.
package election
