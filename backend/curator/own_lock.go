package curator

import (
	"fmt"

	"github.com/go-election/go-election/backend"
)

// An ownLock is what this Backend has, or may have, in an election.
type ownLock struct {
	session       int64   // the node's owner
	namePrefix    string  // prefix of the name of the node that was requested; "": none
	node          string  // its name; "": not known whether it was created
	term          uint64  // of the grant; 0: the node is queued, or was left over
	grant         int     // number of the grant in the session
	sessionCzxid  int64   // czxid of the session record at the grant
	recordVersion int32   // last known version of the record
	record        *record // the record in that version
	pending       int     // requests for a node that outlive their calls
}

// empty reports whether there is nothing of ours in the store.
func (own *ownLock) empty() bool { return own.namePrefix == "" && own.node == "" && own.pending == 0 }

// reset forgets everything but pending requests.
func (own *ownLock) reset() { *own = ownLock{pending: own.pending} }

// lockOf returns a copy of what we have in an election.
func (b *Backend) lockOf(election string) ownLock {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own := b.locks[election]; own != nil {
		return *own
	}
	return ownLock{}
}

// updateLock changes what we have in an election.
func (b *Backend) updateLock(election string, change func(*ownLock)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applyUpdate(election, change)
}

// updateUnlessReplaced notes what is about to be requested in a session. It fails if that
// session is being replaced, which would close it under a grant.
func (b *Backend) updateUnlessReplaced(s *session, election string, change func(*ownLock)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.beingReplaced {
		return errSessionEnded
	}
	b.applyUpdate(election, change)
	return nil
}

func (b *Backend) applyUpdate(election string, change func(*ownLock)) {
	own := b.locks[election]
	if own == nil {
		own = &ownLock{}
		b.locks[election] = own
	}
	change(own)
	if own.empty() {
		delete(b.locks, election)
	}
}

// grantsOf returns the numbers of the session's grants that are held.
func (b *Backend) grantsOf(id int64) (list []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, own := range b.locks {
		if own.session == id && own.term != 0 {
			list = append(list, own.grant)
		}
	}
	return list
}

// pathBytes returns the sum of the lengths of the paths of the session's nodes.
func (b *Backend) pathBytes(id int64) (bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, own := range b.locks {
		if own.session == id {
			bytes += len(b.layout.lockPath(name)) + 64
		}
	}
	return bytes
}

// maxPathBytes limits pathBytes. Closing a session deletes all of its nodes in one
// transaction, whose paths must fit into what servers accept from each other
// (ZOOKEEPER-4306: 2 MB of paths took an ensemble down for good).
const maxPathBytes = 512 << 10

// forgetNode notes that a node is gone.
func forgetNode(now *ownLock, gone ownLock) {
	if now.node == gone.node {
		now.reset()
	}
}

// checkPathBytes reports an error if the session cannot take another node.
func (b *Backend) checkPathBytes(id int64, election string) error {
	if w := b.pathBytes(id) + len(b.layout.lockPath(election)) + 64; w > maxPathBytes {
		return fmt.Errorf("%w: the nodes of this session would have %d bytes of paths, and servers may fail to close a session with more than %d: spread the elections over several Backends, or shorten their paths", backend.ErrDenied, w, maxPathBytes)
	}
	return nil
}

// trackPending returns what to call before and after a request that creates a lock node.
func (b *Backend) trackPending(election string) (begin, end func()) {
	return func() { b.updateLock(election, func(own *ownLock) { own.pending++ }) }, func() { b.updateLock(election, func(own *ownLock) { own.pending-- }) }
}
