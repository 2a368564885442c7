// Package conformance is the test suite that every election backend must pass,
// whether it belongs to this module or not.
//
// The suite has three kinds of cases, all about what a store can get wrong:
//
//   - Contract cases call a [backend.Backend] directly and check each sentence of the
//     contract.
//   - Cases of managers run several of them on one store. A [Wire] before each backend
//     loses, delays and repeats calls. The cases look for two leaders, terms that
//     decrease, and times without a leader above the documented bounds.
//   - Storms are many faults at random.
//
// What is about the manager alone (events, functions, campaigns, operators, outages, the cost of calls) needs
// no store: this package's own tests run it once, over memory.
//
// # Testing a backend
//
// Write one test. A store that the test can create in its own process needs no more than this:
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
// For a store on a server, NewStore creates something fresh there, such as a table or
// a prefix with a random name, and drops it in t.Cleanup. Open connects another client
// to it. Such a test runs in real time: set [Harness].TTL to a short lease and Parallel
// to true. [Store].Faults holds functions that harm the store, such as deleting a record.
//
// Then read the list of skipped cases. Run prints it at the end, with the reasons. [backend.Guarantees]
// decides which cases apply and which bounds they check. A case for a false claim fails; it is never skipped.
//
// # Rules
//
// Each case has a rule number, a name and a sentence. A failure prints all three. The
// letter tells what the rule is about: A Acquire, R Renew, V Mark, X Release, O Observe,
// N Listen, W Request, T List, M members, G the contract in general, S safety,
// L liveness; among the cases about managers also P operators and programs, Q cost.
//
// In every case of managers a checker samples which managers lead, and records each call that
// succeeded. At the end [Check] checks the recorded history.
//
// # Limits
//
// A passing run proves nothing: run the suite often, and under the race detector. No test can check the
// assumptions: that clocks run at nearly the same rate, and that the store keeps what it has acknowledged.
//
// In real time a busy machine can delay everything. The suite runs a case that failed up
// to two more times, with longer leases if the store allows it, and logs that as REPEATED.
// A violation of safety, such as two leaders, fails the case at once.
package conformance
