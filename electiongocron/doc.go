// Package electiongocron runs scheduled jobs on one process of a fleet, with gocron v2 or any other
// scheduler: it runs on every node, and the job on one.
//
// A [Gate] admits jobs on the leader, cancels them when its leadership ends, and keeps the lease until the
// last one has returned. A [Locker] gives each run of a job to the node that comes first, with a least and a
// greatest time for its lock. Both pass the term, which fences what a job writes.
//
// The package is a module of its own, so that users of go-election do not depend on gocron.
package electiongocron
