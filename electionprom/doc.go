// Package electionprom exports Prometheus metrics of an election manager.
//
//	prometheus.MustRegister(electionprom.New(manager, electionprom.Options{}))
//
// A label distinguishes several managers in one process:
//
//	r := prometheus.WrapRegistererWith(prometheus.Labels{"store": "eu"}, prometheus.DefaultRegisterer)
//	r.MustRegister(electionprom.New(eu, electionprom.Options{}))
//
// The collector starts no goroutine and keeps no state: each scrape reads the manager (election.Manager.Stats
// and Elections). Between scrapes the metrics cost the manager one addition for each call and event.
//
// docs/metrics.md lists the metrics, and what to be alarmed by.
//
// Labels hold names of elections, the id of this candidate, and constants of this module. No text that other
// processes have written into the store becomes a label, and no text of an error.
//
// # Limits
//
// Prometheus scrapes processes one after the other, so the sum of election_leading over
// all of them can be 2 around a change of leader, although there never were two leaders.
// The term protects your data; an alert does not.
package electionprom
