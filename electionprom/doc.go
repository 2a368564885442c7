// Package electionprom exports Prometheus metrics of an election manager.
//
//	prometheus.MustRegister(electionprom.New(manager, electionprom.Options{}))
//
// A label distinguishes several managers in one process:
//
//	r := prometheus.WrapRegistererWith(prometheus.Labels{"store": "eu"}, prometheus.DefaultRegisterer)
//	r.MustRegister(electionprom.New(eu, electionprom.Options{}))
//
// The collector starts no goroutine and keeps no state: each scrape reads the manager
// (election.Manager.Stats and Elections). Between scrapes the metrics cost the manager
// one addition for each call and event.
//
// # Metrics
//
// Of the process:
//
//	election_info{backend, candidate}             1; join other metrics with it to get the candidate's id
//	election_ttl_seconds                          the TTL of this manager's leases
//	election_joined{state}                        joined elections by the state that this process knows:
//	                                              leading (itself), following (another process), vacant, unknown
//	election_omitted                              how many of them have no metrics of their own (see Options)
//	election_changes_total{kind, own, reason}     events to watchers: kind is elected, vacant, unknown or
//	                                              notice; own is true for a leadership of this process
//	election_calls_seconds{call}                  histogram: duration of calls to the store (renew, acquire, observe,
//	                                              release, ask, announce) and of the health check; not of listen, which waits
//	election_errors_total{call, class}            failed calls, or items of a batch: unavailable, denied or invalid
//	election_renewal_remaining_ratio              histogram: the part of the TTL for which a lease was still valid
//	                                              when its renewal was confirmed
//	election_watchers                             registered callbacks
//	election_watcher_queue                        events that wait for callbacks
//
// Of each election, unless there are too many:
//
//	election_leading{election}                    1 if this process leads it now, else 0
//	election_term{election}                       the last term that this process knows
//
// Labels hold names of elections, the id of this candidate, and constants of this module.
// No text that other processes have written into the store becomes a label, and no text of
// an error.
//
// # Limits
//
// Prometheus scrapes processes one after the other, so the sum of election_leading over
// all of them can be 2 around a change of leader, although there never were two leaders.
// The term protects your data; an alert does not.
package electionprom
