// Package conformance judges election backends: one suite that every backend must
// pass, those of this module and those of others.
//
// It has three parts. Cases about the contract alone call a raw
// [backend.Backend] and hold it to each sentence of that package. Cases with
// managers run several of them over one store, behind wires that lose, delay and
// double what they carry, and look for two leaders, terms that go back, events
// that are missing, and time without a leader beyond the documented bounds. Cases
// about cost count calls: an election that talks when nothing happens fails.
//
// # Judging a backend
//
// Write one test. This is all that a backend whose store can be made in the
// process needs:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			Virtual: true,
//			NewStore: func(t testing.TB) conformance.Store {
//				store := memory.New()
//				return conformance.Store{
//					Open: func(t testing.TB) backend.Backend { return store.Backend() },
//				}
//			},
//		})
//	}
//
// For a store that is a server, NewStore makes something fresh there, such as a
// table or a prefix with a random name, and drops it in t.Cleanup; Open connects
// one more client to it. In real time, say how short a lease may be, and run the
// cases side by side:
//
//	func TestConformanceInRealTime(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			TTL: time.Second, Parallel: true,
//			NewStore: func(t testing.TB) conformance.Store {
//				prefix := newPrefix(t)
//				return conformance.Store{
//					Open: func(t testing.TB) backend.Backend { return dial(t, prefix) },
//					Faults: map[string]conformance.Fault{
//						conformance.FaultDeleteRecord: func(_ bool, election string) error {
//							return deleteRecord(prefix, election)
//						},
//					},
//				}
//			},
//		})
//	}
//
// Then read what was skipped: it is printed at the end, by name and with the
// reason. [backend.Guarantees] decides which cases apply and with which bounds. A
// claim that turns out false is a failure and never a skip.
//
// # Rules
//
// Each case is named after the rule that it enforces and prints the rule's
// sentence when it fails. A, R, V, X, O, N, W, T, M and G are the contract: Acquire,
// Renew, Mark, Release, Observe, Listen, Ask, List, members, and what is general. S1 to
// S15 are about safety, L1 to L8 about liveness, P about what operators and
// programs ask for, and Q1 about cost.
//
// In every case with managers a judge samples who believes to lead, at each
// change and many times a TTL, and afterwards [Check] goes through the history.
//
// # A machine that stands still
//
// In real time somebody looks at the clock every few milliseconds, beside each case. Time
// in which the machine stood still does not count against a limit. And if it stood still
// for so long that leases run out by that alone, what was not done in time is no verdict.
// Nor is it if a store that nobody had harmed took longer for an answer than a manager's
// call has, or said that it is unavailable on a machine that stood still for a moment.
// Such a trial is logged as VOID, and the case is tried again on a fresh store, when the
// machine has come to rest and with longer leases, if the store is known to allow them.
// The fourth trial counts, whatever happens. This excuses no second leader, and nothing
// else that is wrong in the history.
//
// # What it cannot show
//
// A run without failures shows no false positive, and proves nothing: run it
// often, under the race detector, and with more storms ([Storm]). Assumptions
// that no test can check stay assumptions: that clocks tick at nearly the same
// rate, and that the store keeps what it has acknowledged.
package conformance
