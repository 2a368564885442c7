// Package electionguard makes a crash of a leader cost milliseconds instead of a TTL, on Linux.
//
// A second process, the guard, is the program's own binary started again. It knows which leases the
// program may hold, and waits. When the program has certainly ended, the guard releases those leases
// in the store, as failed, and ends. The next leader need not wait for the TTL.
//
//	func main() {
//		config.RunGuard() // first of all
//		m, err := config.Open(ctx, "election.yaml") // with the line "guard: true"
//
// The kernel must say twice that the program has ended: a pipe is closed that it has had since the first line
// of main, and that every process that it has started since inherits; and its last thread has ended
// (pidfd_open(2)). One without the other releases nothing. A program that is stopped, hangs, dumps core or
// executes another program has not ended. A child that closes all files that it does not know, as daemons do,
// or that was started before main, is not known: the guard releases while it lives.
//
// If program and guard die together, a crash costs a TTL, as without a guard: when the machine fails;
// when the program is process 1 of a container; when the kernel kills a whole control group
// (memory.oom.group, systemd's OOMPolicy=kill).
//
// What the dead leader has sent to other systems may still arrive, milliseconds later, when another
// process leads. Without a guard the TTL absorbs that. Work that is fenced by the term needs nothing;
// for other work set [Options].Grace to the longest time that a request may be on its way.
//
// docs/design/guard.md has the argument.
package electionguard
