// Package file elects a leader among the processes of one machine, with lock
// files in a directory. Nothing needs to be installed.
//
//	store, err := file.Open(ctx, file.Options{Dir: "/var/lib/app/election"})
//	manager, err := election.New(store, nil)
//
// # How it works
//
// Who leads an election holds flock(2) on its file <name>.lock. The kernel ends
// that when it closes the file, and it closes all files of a process that dies,
// however it dies. So a leader that crashes is replaced within milliseconds, and
// its TTL does not matter. Children do not inherit the lock: Go opens files with
// O_CLOEXEC and does not fork without exec. (A process that works in the leader's
// place can be given it on purpose: [Backend.Lock].)
//
// A lease lasts as long as the process, even if it is not renewed: a leader that
// is stopped (SIGSTOP, a debugger, a frozen container) keeps its lock, though
// Leading is false there from its first instruction on once its trust has run
// out, and nobody else leads until it goes on or dies. [backend.Guarantees] says
// so: Expiry is ByKernel.
//
// Renewing writes a fresh heartbeat into the lock file, and then proves that the lock
// is still had, that the file at the path is still the one that is locked, and
// that the record still names this leadership.
//
// # What is in the directory
//
// All is text:
//
//	billing.lock    locked by the leader; one line: term, heartbeat, TTL, checksum
//	billing.json    the present leadership and the eight before it; stays for ever
//	billing.request    what an operator asked for, scoped to a term
//	<nonce>.member  a process that takes part
//	ELECTIONS       the greatest TTL here, all elections that were ever led, and
//	                its own inode ("@dev:ino"), which a copy of it does not have
//
// Names of elections are encoded: lower-case letters, digits, "-", "_" and dots
// stand for themselves, other bytes are %xx, so that two names are two files also
// where case does not count; a very long name ends in its hash. To see who leads:
//
//	cat billing.json; lslocks | grep election; fuser -v billing.lock
//
// # Terms
//
// A term is written into the lock file and flushed to the disk (fdatasync) before
// its leader hears of it. It exceeds those in the lock file and in the record,
// and is not less than the microseconds since 1970. If one of the two is gone, or
// cannot be believed, it is a jump ahead of the clock, which grows with the clock
// ([backend.TermJump], and as long again as has passed since 2026). The first term of an
// election that does not stand in ELECTIONS is the clock's. So terms grow through restarts
// of the machine, and through deleted files. Not so when everything is deleted after such a
// jump, or files come back, from a backup or from where somebody had moved them: terms may
// be lower than before.
//
// # Why there are never two leaders
//
// Two processes cannot hold flock on one file. They can on two files that had the
// same path one after the other: somebody removed, replaced or restored the file.
// The leader A finds that at its next renewal, which is refused. Until then it
// trusts its lease, at most until TTL less the clock margin after it sent the last one
// that was granted, and that one has seen the file in place.
//
// A record is believed, be it of a leader or vacant, only if the file at the path is
// the one that it names, and if it is not older than what this process has seen. All
// else may be what an earlier leadership left, and somebody has put back. Nothing that is
// written there counts then, not even a TTL: who finds that must have seen it for the
// greatest TTL (max_ttl), by its own clock, before it may lock the file. That is longer
// than A trusts. The record is written before a grant is answered, and stays. Files
// are told by their inodes: the number of the device may be another after a restart.
//
// If the record is gone too, an election that stands in ELECTIONS is watched in the same
// way, and each in a directory without it. One that does not stand there was never
// led, and need not wait. A copy of ELECTIONS from a backup may not know who leads now.
// It does not name its own inode, and counts as none. Who leads writes its name again
// at its next renewal. So an ELECTIONS that was made while others led ("@part") may not
// know of all of them: new elections are watched, too, until it is a greatest TTL old ("@whole").
//
// Nobody has to wait if nobody holds anything: each process that holds a lock in
// the directory also holds a shared flock on the directory itself, which no
// deletion of files removes, and who can have it exclusively knows that no one
// does. (systemd-tmpfiles does not clean a directory that is locked.)
//
// The inode of a file that somebody has open cannot be given to another file. So
// if the file that the record names is there and is not locked, its holder has
// ended or has let go for certain, and the lease is free at once.
//
// If the directory itself is moved, removed, replaced, or covered by a mount, a leader's
// next renewal is refused, and who follows since before that watches for the greatest TTL.
//
// What is not covered:
//
//   - A process that starts only after the directory was replaced. It cannot know, and may
//     lead at once. The old leader goes on until its next renewal, a third of a TTL
//     later, and until its deadline if it is stopped. Do not do that while members run,
//     nor switch a symbolic link that leads there.
//   - A watcher that is stopped while somebody else is elected, and files are put back or
//     removed again until all looks as it did before. It does not see that there was a leadership.
//   - One directory by two file systems: an overlay, and its upper directory from outside.
//     Each has locks of its own, and elects.
//   - A process that works under a lock it was given ([Backend.Lock]) when its holder has
//     died and somebody removes the file.
//
// # Looking without taking
//
// flock cannot be asked who holds it. To take it shared for a moment, to see,
// would make a bid fail that comes in that moment; and a process stopped
// in that moment would keep everybody out. So on Linux the holder marks its file with a second
// lock of the kind that can be asked about (F_OFD_SETLK; it belongs to the open
// file as flock does, and ends with it), and others ask with F_OFD_GETLK. Only
// flock decides. On macOS, which has no such lock, looking takes it shared, and bids that are refused for
// that try again.
//
// # Hearing of changes
//
// Followers wait for inotify on the directory. It says nothing of locks, but a
// file that was open for writing tells when it is closed (IN_CLOSE_WRITE), also
// when the kernel closes it because the process was killed. That is told just
// before the lock ends, so the lock is looked at again a few times. Where there is
// no inotify (macOS, or fs.inotify.max_user_instances processes are listening
// already) files are read every 50 ms. An idle follower costs one reading for
// each renewal of its leaders, and each TTL/2.
//
// Measured on two busy cores and ext4, flush to disk 2.4 ms: from kill -9 to the
// next leader's function 4 ms (median of 27, with three to eleven followers), of
// which the flush of the new term is more than half; the worst was 31 ms. A thousand
// leases are renewed in 39 ms, read in 26 ms, and taken over in 0.3 s.
//
// # Rights, and where
//
// All members run as one user, who owns the directory; what it makes is 0600 and
// 0700. Open refuses a directory of another user, one that everybody can write, sticky
// or not, and any file system that is not known to be
// local to this kernel: NFS, SMB, 9p, and all of FUSE, where locks may be
// local to each machine or lost. Known are ext2 to ext4, xfs, btrfs, zfs, f2fs,
// bcachefs, jfs, nilfs2, reiserfs, ubifs, jffs2, overlayfs, and tmpfs and ramfs, whose
// terms do not survive a restart but by the clock; apfs and hfs on macOS. A file in
// the directory that is a symbolic link, belongs to another user or can be
// written by everybody is an error and not followed. It costs its own election alone:
// others see that one as if nobody could have it, and a bid for it says why. Containers can share a
// directory of one machine; not so the guests of a hypervisor. A container that keeps
// the directory in its own layer elects by itself. Whoever can write the directory
// can depose or impersonate any leader. So can who can write one of its parents, which are
// not looked at: it can be renamed away. There are no credentials.
//
// # Limits
//
// Linux (tested) and macOS (compiled and vetted, never run). Each lease that is
// held is an open file: see ulimit -n. Each grant waits for the disk once. A call
// that waits for a disk that hangs does not return before the disk does.
package file
