// Package chaos runs real processes on real servers, injects real faults, and checks what they did.
//
// # A history
//
// Three processes open a backend by configuration and campaign in two elections. Each is the test binary,
// started again with a [Role]. While a process leads, it repeatedly appends its term to a file that all
// share: it calls Leading, works for a moment, and writes. If it is stopped in that moment for longer than
// its lease lasts, no lease can prevent a late write. A fence for each election, which refuses a term below
// the greatest that it has accepted, would. What it would have refused is counted.
//
// The harness injects faults, by a schedule that follows from one seed: it kills or stops the leader, cuts
// its network, kills or stops the server, steps the server's clock, fails over to a replica, takes rights
// away. Then it heals the fault, and each election must have a leader again within a bound.
//
// # What is recorded
//
// All times are the machine's CLOCK_MONOTONIC, which processes share. Each process appends lines to its own
// file, one write(2) for each line, so a kill -9 loses none. Each process samples its belief a thousand times
// a second. The recorded interval lies inside the true one: it begins after the first call of Leading that
// returned true, and ends before the last. The process also keeps its last sample in a file that it shares
// with the harness, so the belief of a killed process is known to a millisecond.
//
// # What is checked
//
//   - S1, S4, S5, S7 and S8 by [conformance.Check]: exclusive belief, and terms. Some order of grants,
//     renewals and releases explains their answers, and whoever leads was granted its term.
//   - L3: each election has a leader within the bound after each heal.
//
// # Which faults count
//
// Only a fault that hit a leader counts. A pause counts if the process believed that it led when it was
// stopped; a cut, if calls of a leader failed; a failover, if it ended a leadership. A history in which no
// fault hit a leader is no evidence, and is counted apart. On stores where another process can take over from
// a stopped leader, pauses longer than a TTL must cause a late write in some history of a run.
//
// "make chaos" adds histories to docs/chaos.json. "go test" runs two short ones for each backend.
package chaos
