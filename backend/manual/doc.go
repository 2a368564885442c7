// Package manual lets the configuration say who leads.
//
//	store, err := manual.Open(ctx, manual.Options{Leader: "node-1"})
//	manager, err := election.New(store, &election.Options{ID: "node-1"})
//
// Events, terms, steps down in order and all else are as on any store; only, a
// candidate gets a lease if and only if it is named, and loses it at its next renewal
// when it is not named any more. Change one word of the configuration, the backend, and
// the store elects.
//
// # Who is named
//
//   - Leader: self. Whoever runs with this configuration leads: the "not HA" mode of a
//     single process. It needs nothing else. Two processes with it both lead.
//   - Leader: an id, the same in the configuration of all. Leaders names others
//     for single elections. [Backend.Assign] changes both while the process runs.
//   - File: a file that names them, read anew at each call, so that an edit takes
//     effect within a third of a TTL.
//
// The file is JSON. Its version must grow with each change:
//
//	{
//	  "version": 3,
//	  "leader": "node-1",
//	  "elections": {"billing": "node-2", "reports": ""}
//	}
//
// elections is about single elections and may be missing; "" means that nobody
// shall lead. Replace the file in one step (mv). A good version is the time,
// date +%s%6N: terms exceed it.
//
// # What is promised
//
// Nobody can promise one leader if each process has a configuration of its own:
// while it is rolled out, or when it drifts, two may be named. So
// [backend.Guarantees] does not claim Exclusive, unless Dir is set.
//
// With Dir, leaderships are kept by package backend/file in that directory, for the processes of one machine:
// the kernel allows one leader, whatever the configurations say; terms survive
// restarts; all see who leads, and an operator's requests work. What has been said about package
// file holds, and Expiry is ByKernel.
//
// Without Dir but with File, one file that all read (on a disk that machines share, say) is nearly as
// good, though it cannot be claimed: nobody can tell from a path that it is one
// file. Who finds itself named, also at its start, first watches that for the
// greatest TTL on its own clock. The one who was named before has read the file
// anew in each renewal, and trusts the last granted one for less than a TTL from
// before that reading. So it has stopped when the other begins, provided that a reading never
// shows an older file than an earlier reading by somebody else did (a local disk; not copies that are
// rolled out one by one, nor NFS with its caches unless mounted with noac), and that no two
// live processes have the id that is named: both would lead. End the old process before
// the new one starts, or set Dir.
//
// Terms are the microseconds since 1970 at the grant, more than any that this
// process knows, and more than the file's version. Without Dir they are not kept: they
// grow as long as clocks do.
//
// # What is wrong with a configuration
//
// As far as it can be seen it is an error of class ErrDenied, in every call, which
// watchers are told: a file that is not there or cannot be read or understood, a
// version that goes back, one version with two contents. Meanwhile nobody is granted
// anything, and a leader, whose renewals have no outcome, leads until its deadline: an
// editor that is slow costs nothing, a file that stays broken for a TTL costs the
// leader. [Backend.Check] finds more: a leader that is not the named one, and, with Dir, an id
// that no live process has.
//
// A request (nominate) does not change who is named: edit the configuration.
package manual
