// Package manual lets the configuration say who leads.
//
//	store, err := manual.Open(manual.Options{Leader: "node-1"})
//	m, err := election.New(store, election.Options{ID: "node-1"})
//
// A candidate is granted a lease only if the configuration names it, and loses the lease at its next renewal
// once it is no longer named. All else works as on every store. For elections, change the backend.
//
// The leaders are named by [Options], or by a JSON file that an operator edits while the processes run:
//
//	{
//	  "version": 3,
//	  "leader": "node-1",
//	  "elections": {"billing": "node-2", "reports": ""}
//	}
//
// "" means that nobody may lead. The version must grow with each change, such as the time (date +%s%6N).
// Replace the file in one step (mv).
//
// # Limits
//
//   - If the named process has died, nobody leads until an operator names another.
//   - Only with a directory (Dir) do two processes of a machine never lead, whatever their configurations
//     say. One File that all read is nearly as safe.
//
// docs/design/manual.md says what can be promised, and why.
package manual
