// Package file elects a leader among the processes of one machine, with files in a directory.
//
//	store, err := file.Open(file.Options{Dir: "/var/lib/app/election"})
//	m, err := election.New(store, election.Options{})
//
// # In the directory
//
//	leases-<number>.json   all leases (package register), and a line that says which file they were written to
//	<nonce>-<file>.alive   a named pipe that a process keeps open for writing as long as it lives
//
// A swap links a new file to the number that follows the present one. Linking fails if that name is there, so
// of two swaps over one number one wins, and no process waits for another that was stopped.
//
// # Why a death is proven
//
// Before its first bid a process makes a pipe and opens it for writing. The kernel closes it when the process
// has ended, and then a reader of the pipe is told the end of the file. So followers hear of a death in
// microseconds, and package lease frees at once what the process has held. A process that is stopped has its
// pipe open: nobody else leads until it continues or ends. Its own Leading is false from its deadline on.
//
//   - The pipe's name contains its own device, inode and time of birth. A pipe that was copied, restored or
//     made by somebody else proves nothing: then the lease expires after a TTL, as in any other store.
//   - Children do not inherit it, unless [Backend.Lock] passes it on purpose.
//   - The process never closes it while it may hold a lease, not even in Close.
//
// # What two processes could each believe
//
// A holder may trust its lease for its TTL after its last renewal, whatever becomes of the files meanwhile.
// So a value is believed at once only if it is in the file that it was written to, in the directory that was
// there before. Otherwise it was restored, damaged or deleted, and nobody is granted anything before this
// process has seen it so for the greatest TTL. By then each leader has tried to renew, and was told so.
//
// If no process could lead, none need wait. Each process that may lead holds a shared lock on the directory
// itself, flock(2), which deleting files does not end. Who can lock it alone knows that nobody leads in it.
//
// docs/design/file.md has what is not covered, rights, file systems, and what was measured.
package file
