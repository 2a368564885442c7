// Package manual lets the configuration say who leads.
//
//	store, err := manual.Open(manual.Options{Leader: "node-1"})
//	m, err := election.New(store, election.Options{ID: "node-1"})
//
// A candidate is granted a lease only if the configuration names it, and loses the lease
// at its next renewal once it is no longer named. Everything else, such as events, terms
// and stepping down, works as on every store. To turn elections on later, change the
// backend in the configuration.
//
// # Options
//
//   - Leader: self. Every process with this configuration leads: the "not HA" mode of a
//     single process. Two processes with it both lead.
//   - Leader: an id, the same in all configurations. Leaders names others for single
//     elections. [Backend.Assign] changes both while the process runs.
//   - File: a JSON file that names the leaders. Every call reads it, so an edit takes
//     effect within a third of a TTL.
//   - Dir: a directory of package backend/file that keeps the leaderships. Only with it
//     do two processes never lead, whatever their configurations say. They must run on
//     one machine.
//
// The file may leave out elections. "" means that nobody may lead:
//
//	{
//	  "version": 3,
//	  "leader": "node-1",
//	  "elections": {"billing": "node-2", "reports": ""}
//	}
//
// The version must grow with each change; the time is a good version (date +%s%6N).
// Replace the file in one step (mv).
//
// # Limits
//
//   - If the named process has died, nobody leads until an operator names another.
//   - Without Dir, two leaders are possible, and [backend.Guarantees] does not claim
//     Exclusive. One File that all processes read is nearly as safe; a process that
//     finds itself named observes that for the greatest TTL before it leads.
//   - Without Dir, terms are not kept. They grow as long as clocks do.
//   - A file that cannot be used is ErrDenied in every call. Nobody is granted anything
//     meanwhile, and a leader leads until its deadline.
//   - A nomination does not change who is named. Edit the configuration.
//
// # Design
//
// docs/design/manual.md says what can be promised with and without Dir and File, and why.
package manual
