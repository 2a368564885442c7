// Package electionhttp serves the status of elections over HTTP: to load balancers, to
// programs, and to people.
//
//	h, err := electionhttp.New(m, electionhttp.Options{}) // m is an election.Manager
//	http.Handle("/election/", http.StripPrefix("/election", h))
//
// A [Handler] opens no port, makes no connection, and needs only the standard library. The program decides
// who can reach it: bind it to loopback or to an internal network, or put authentication in front.
//
// # Paths
//
// All paths are relative to the handler's prefix. NAME is percent-encoded
// (billing%2Fnightly). docs/http.md describes queries, JSON fields and events; [Record] and
// [Change] are those that the command elect prints too.
//
//	GET  /leader/NAME     200 while this process leads, 503 if it does not, 404 if it has not
//	                      joined or only observes; also HEAD and OPTIONS
//	GET  /healthz         200 if the manager's loop answers and the manager is not closed
//	GET  /readyz          200 if, in addition, this process can take part
//	GET  /elections       all elections that this process has joined, or those that the query selects
//	GET  /elections/NAME  one election, with the last leaderships that the store keeps
//	GET  /changes         the last changes, newest first
//	GET  /events          every change, as server-sent events
//	POST /actions         pause, resume, resign, nominate, depose; only with Options.Authorize
//	GET  /                the status page
//
// /leader compares the clock with the lease's deadline just before the answer. The lease may end
// while the answer travels, so work that must not happen twice needs the term as well. The other
// paths show what this process knows.
//
// # Security
//
// The handler shows names, ids, addresses and terms; metadata and the texts of errors only with
// [Options.Details]. It never shows nonces: with a nonce and access to the store a renewal can be forged.
//
// Without [Options.Authorize] nothing can be changed. With it, the handler refuses a POST of
// another site's page ([http.CrossOriginProtection]); then Authorize decides. It should ask for a
// secret (compare it with crypto/subtle): every program on the machine reaches loopback, and so does
// a page that rebinds its DNS name. No action makes two leaders: each ends in the leader stepping down.
//
// # Limits
//
// Requests share a snapshot of the manager for 100 ms unless something changes, and share
// reads of the store for a second. A stream for which 256 changes wait starts again from the
// current states. A client that accepts nothing for 10 s is disconnected.
package electionhttp
