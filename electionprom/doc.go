// Package electionprom exports what an election manager does as Prometheus
// metrics.
//
//	prometheus.MustRegister(electionprom.New(manager, nil))
//
// For several managers in one process, tell them apart by a label:
//
//	r := prometheus.WrapRegistererWith(prometheus.Labels{"store": "eu"}, prometheus.DefaultRegisterer)
//	r.MustRegister(electionprom.New(eu, nil))
//
// It starts no goroutine and keeps nothing: each scrape asks the manager
// (election.Manager.Stats and Elections) and makes values of the answer. What is
// not scraped costs the manager an addition for each call and event.
//
// # Metrics
//
// Of the process:
//
//	election_info{backend, candidate}             1; the candidate's id, to join others by
//	election_ttl_seconds                          the TTL of this manager's leases
//	election_joined{state}                        elections joined, by what this process knows of each:
//	                                              leading (itself), following (another), vacant, unknown
//	election_omitted                              how many of these have no metrics of their own (see Options)
//	election_changes_total{kind, own, reason}     what watchers were told: kind is elected, vacant, unknown or
//	                                              notice; own is true if it was about a leadership of this process
//	election_calls_seconds{call}                  histogram: how long calls of the store took (renew, acquire, observe,
//	                                              release, ask, announce) and the health check; without those that wait (listen)
//	election_errors_total{call, class}            calls, or items of a batch, that failed: unavailable, denied or invalid
//	election_renewal_remaining_ratio              histogram: what part of the TTL a lease could still be trusted
//	                                              for when its renewal was confirmed
//	election_watchers                             callbacks that are registered
//	election_watcher_queue                        events that wait for them
//
// Of each election, unless there are too many:
//
//	election_leading{election}                    1 if this process leads it now, else 0
//	election_term{election}                       the term of the leader, or the last one, that this process knows
//
// Labels hold names of elections, the id of this candidate, and constants of this
// module. Nothing that others wrote into the store becomes a label, and no text of
// an error.
//
// # What they cannot say
//
// Processes are scraped one after the other, so the sum of election_leading over
// all of them can be 2 for a scrape around a change of leader, though there never
// were two. What protects your data is the term, not an alert.
package electionprom
