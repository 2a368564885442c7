package zookeeper

import (
	"fmt"

	"github.com/go-election/go-election/backend"
)

// own is what this Backend has, or may have, at an election.
type ownLock struct {
	session       int64   // that the node belongs to
	namePrefix    string  // how the name of a node begins that was asked for; "": none
	node          string  // its name; "": not known whether it was made
	term          uint64  // that it was granted; 0: it is queued, or was left
	grant         int     // number of the grant in the session
	sessionCzxid  int64   // czxid of the session's own node, under which it was granted
	recordVersion int32   // of the record, when it was last known
	record        *record // the record as of then
	pending       int     // requests to make a node whose calls have given up
}

// empty reports whether there is nothing in the store.
func (own *ownLock) empty() bool { return own.namePrefix == "" && own.node == "" && own.pending == 0 }

// reset notes that there is nothing but requests on their way.
func (own *ownLock) reset() { *own = ownLock{pending: own.pending} }

// mine returns a copy of what is ours at an election.
func (b *Backend) lockOf(election string) ownLock {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own := b.locks[election]; own != nil {
		return *own
	}
	return ownLock{}
}

// note changes what is ours at an election.
func (b *Backend) updateLock(election string, change func(*ownLock)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applyUpdate(election, change)
}

// claim notes what is about to be asked for in a session, unless that is being
// replaced: it would be closed under a grant.
func (b *Backend) updateUnlessReplaced(s *session, election string, change func(*ownLock)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.beingReplaced {
		return errSessionClosed
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

// grants returns the numbers of the session's grants that are held.
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

// weight is how many bytes the paths of the session's nodes have.
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

// maxWeight bounds that. Closing a session deletes all of its nodes in one
// transaction, whose paths must fit into what servers accept of each other
// (ZOOKEEPER-4306: 2 MB of them took an ensemble down for good).
const maxPathBytes = 512 << 10

// clearNode notes that a node is gone.
func forgetNode(now *ownLock, gone ownLock) {
	if now.node == gone.node {
		now.reset()
	}
}

// room reports an error if the session cannot take another node.
func (b *Backend) checkPathBytes(id int64, election string) error {
	if w := b.pathBytes(id) + len(b.layout.lockPath(election)) + 64; w > maxPathBytes {
		return fmt.Errorf("%w: the nodes of this session would have %d bytes of paths, and servers may fail to close a session with more than %d: spread the elections over several Backends, or shorten their paths", backend.ErrDenied, w, maxPathBytes)
	}
	return nil
}

// account returns what to call before and after a request that makes a lock node.
func (b *Backend) trackPending(election string) (begin, end func()) {
	return func() { b.updateLock(election, func(own *ownLock) { own.pending++ }) }, func() { b.updateLock(election, func(own *ownLock) { own.pending-- }) }
}
