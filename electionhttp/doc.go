// Package electionhttp shows over HTTP who leads what: to load balancers, to
// programs, and to people.
//
//	h, err := electionhttp.New(m, nil) // m is an election.Manager
//	http.Handle("/election/", http.StripPrefix("/election", h))
//
// A [Handler] opens no port, dials nobody, and uses no package beyond the standard
// library. Who may see it is for the program to decide: bind it to loopback or to an
// inner network, or wrap it in what authenticates.
//
// # Paths
//
// All of them are relative to where the handler stands, so any prefix will do. NAME
// is percent-encoded: billing%2Fnightly. An unencoded slash works as well, unless a
// mux in front rewrites the path. No path has a name that is "." or "..".
//
//	GET  /leader/NAME     200 while this process leads, 503 if not, 404 if it has not joined; also HEAD, OPTIONS
//	                      (of a manager that only observes: see Options.For)
//	GET  /healthz         200 if the manager's loop answers and is not closed
//	GET  /readyz          200 if besides the store has been heard within a TTL and Options.Health passes
//	GET  /elections       all, or what the query chooses, as JSON
//	GET  /elections/NAME  one, with what the store keeps: the last leaderships, by its clock
//	GET  /members         who takes part, in any election of the store
//	GET  /changes         the last changes, newest first; election=NAME, limit=100;
//	                      "newest" is where /events?since= goes on
//	GET  /events          every change, as server-sent events
//	POST /actions         pause, resume, resign, nominate, depose; only with Options.Authorize
//	GET  /                the page
//
// /leader compares the clock with the deadline of the lease as the last thing before
// it answers, so it is right at that instant; while the answer travels the lease may
// end. What must not be done twice needs the term as well. It answers by this
// process's own clock even if the store is away. All else is what this process knows,
// and a follower knows late by up to a reading or a push.
//
// /elections takes q (part of an election's name, or of the leader's id or address),
// state (here, others, vacant, unknown, paused, stuck), order (name, or attention:
// what is wrong first), offset and limit. Counts and leaders are of all elections.
//
// [ServeLocal] is apart from all that: a socket of this user's, for the commands elect
// pause, resume and resign.
//
// # JSON
//
// Fields are only ever added. Times are RFC 3339 in UTC by this process's clock unless
// said otherwise; durations are whole milliseconds. A term is a string, since many
// readers of JSON keep only 53 bits of a number. What is not known is null. docs/http.md
// lists the fields. Text of others is cut, and freed of control and bidirectional
// characters, by packages election and backend; in JSON <, > and & are escaped.
//
// # Events
//
// A stream begins with one "state" event for each election (not with states=no), then
// "ready"; after that each change is one "change" event with an id.
// A client that comes back with its last id, as EventSource does, or in since=ID, is
// sent what it has missed, if that is no more than 256 changes. If it is more, or
// another process answers, it is sent "reset", the states and "ready": changes were
// missed. election=NAME chooses one election.
//
// One watcher serves all streams, and waits for none of them. For a client that is
// slow up to 256 changes wait; then they are dropped and it is sent "reset" in their
// place. A client that accepts nothing for 10 s is cut off. An idle stream carries
// a comment every Options.Heartbeat. Streams end with the request, with [Handler.Close]
// and with the manager.
//
// # Safety
//
// What is shown: names, ids, addresses and terms. Not shown are nonces, since who
// knows one and can write to the store can forge a renewal, and, unless
// [Options.Details] says so, metadata and the texts of errors. Metadata is meant for
// everybody who can read the store; those who can open a page are often more,
// and a text of a store's driver names hosts and accounts.
//
// Without [Options.Authorize] nothing can be changed. With it, a POST is refused if a
// browser sends it for another site's page ([http.CrossOriginProtection]), or if it
// is not application/json, or has more than 4 KiB; then Authorize decides. None of
// the actions can make two leaders: all end in the leader's own stepping down.
// A page that is bound to loopback without authentication is still open to all that
// runs on the machine, and to pages that rebind their DNS name: let Authorize ask for
// a secret (compare it with crypto/subtle), or wrap the handler.
//
// The page is one document with its own style sheet and scripts, from this handler.
// Its Content-Security-Policy lets it load nothing else, run nothing inline, and
// make no HTML of text. It cannot be framed, and nothing is to be cached.
//
// Many who ask cost the manager and the store little: a picture of the manager is shared
// for 100 ms unless something has changed, and what is read from the store, at
// /elections/NAME and /members, for a second. When the leadership of another began is asked
// of the store once for each term that somebody looks at.
package electionhttp
