// Package file elects a leader among the processes of one machine, with lock files in
// a directory. Nothing needs to be installed.
//
//	store, err := file.Open(file.Options{Dir: "/var/lib/app/election"})
//	m, err := election.New(store, election.Options{})
//
// The leader of an election holds flock(2) on the file <name>.lock. When a process
// dies, the kernel closes its files and thereby unlocks them. So followers replace a
// leader that crashed within milliseconds, whatever its TTL. Children do not inherit
// the lock; [Backend.Lock] passes it to one on purpose.
//
// A lease lasts as long as its process (Expiry is ByKernel). A leader that is stopped,
// by SIGSTOP, a debugger or a frozen container, keeps its lock. It stops trusting its
// lease at the deadline, and no other process leads until it continues or dies.
//
// # In the directory
//
//	billing.lock     locked by the leader; one line: term, heartbeat, TTL, checksum
//	billing.json     the current leadership and the eight before it; permanent
//	billing.request  an operator's request, scoped to a term
//	<nonce>.member   a process that takes part
//	ELECTIONS        the greatest TTL, every election that was ever led, and its own inode
//
// A file name is the election's name, in which bytes other than lower-case letters,
// digits, "-", "_" and dots are %xx; a very long name ends in its hash. To see who leads:
//
//	cat billing.json; lslocks | grep election; fuser -v billing.lock
//
// While members run, delete nothing and restore no backup: no process leads the
// election then for the greatest TTL.
//
// # Options
//
// All members must run as one user, who owns [Options].Dir, and must have the same Dir
// and the same MaxTTL, one minute by default. Open refuses a directory of another user,
// one that every user can write, and a file system that is not known to be local.
// Whoever can write the directory, or rename one of its parents, can depose or
// impersonate any leader. There are no credentials.
//
// # Limits
//
//   - Linux (tested) and macOS (compiled and vetted, never run).
//   - Containers of one machine can share a directory. Guests of a hypervisor cannot.
//     A container that keeps the directory in its own layer elects by itself.
//   - Each held lease is an open file (ulimit -n). Each grant waits for the disk once,
//     and a call that waits for a hanging disk does not return before the disk does.
//   - A process that starts just after the directory was renamed away, or covered by a mount,
//     may lead beside the old leader, until that leader's next renewal or, if it is stopped,
//     its deadline. After a symbolic link on the path was switched, it waits for MaxTTL.
//   - If everything is deleted within a day after terms jumped ahead of the clock, or if
//     files come back from a backup, terms may be lower than before.
//
// # Design
//
// docs/design/file.md has the argument why two processes never lead at once, the cases
// that it does not cover, how terms grow, how files are read without taking their lock,
// and how followers are notified.
package file
