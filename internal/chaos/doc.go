// Package chaos runs real processes on real servers under real faults, and checks
// what they did.
//
// # A history
//
// Three processes, each the test binary started again ([Role]), open a backend by
// configuration and campaign in two elections. While one leads it writes, again and
// again, its term to a resource that all share: it asks Leading, works for a moment,
// and writes. In that moment it may be stopped for longer than its lease lasts, which
// no lease can help against. The resource has two cells for each election. One
// refuses a term below the greatest it has seen; the other accepts all, and so shows
// what would happen without a fence.
//
// A nemesis torments them, by a schedule that follows from one seed: it kills or stops
// whoever leads, cuts its network, kills or stops the server, steps the server's clock,
// fails over to a replica, deletes rows. Then all is healed, and there must be a leader
// again within a bound.
//
// # What is noted
//
// All times are the machine's CLOCK_MONOTONIC, which processes share. Each process
// appends to a file of its own, by one write for each line, which a kill -9 does not
// lose. What it believes is sampled a thousand times a second; what is noted lies
// inside the true interval: from after the first call of Leading that said true to
// before the last. The last such sample is also kept in memory that is shared with the
// harness, so that the belief of a process that was killed is known to a millisecond.
//
// # What is checked
//
//   - S1, S4, S5, S8, S10 and S11 by [conformance.Check]: exclusive belief, terms,
//     events, one lead function at a time.
//   - S7, by porcupine: grants, renewals and releases of each election are those of one
//     fenced lock, in some order that agrees with when they were called and answered.
//   - S9: the fenced cell's terms never decrease, and it holds exactly the writes that
//     were acknowledged, each by a process to which that term had been granted.
//   - L3: a leader within the bound after each heal.
//
// # Did it bite?
//
// A fault that hit no leader does not count. A pause counts if the process believed to
// lead when it was stopped; a cut, if calls of a leader failed; a failover or a deletion,
// if a leadership ended by it. A history without a bite is no evidence and is counted apart.
// On stores where a stopped leader can be followed by another, pauses that are longer
// than a TTL must be seen to break the cell without a fence in some history of a run.
//
// "make chaos" runs histories, adds them to docs/chaos.json, and writes a page to look
// at. "go test" runs two short ones for each backend.
package chaos
