package zookeeper

import (
	"strings"

	"github.com/go-election/go-election/backend"
)

// A seal is what stands in the way of everybody who elects by a lock, whatever
// program that is: in a queue, a PERSISTENT child that comes before all others; at a
// fixed path, a PERSISTENT node. It outlives all sessions, so that nobody's turn
// comes. A member of Curator's LeaderLatch takes it for the leader, and watches it.
type seal struct {
	sealed  bool
	to      string // the store that the election has moved to
	version int32
}

// sealChild is the name of a seal in a queue. Curator orders children by what follows
// the base of their names, and by the whole name if that is not in it: the servers'
// numbers begin with a digit, or with a minus after two thousand million of them. The
// plus comes before both.
const sealChild = "+moved"

// sealText is what a seal holds, before the name of the store. A program that shows
// the leader's id shows this.
const sealText = "moved to "

// underSeal stands for the node of a holder who needs none: at a fixed path, where
// there is room for the seal alone. The record and the session's node are its lease
// then, as they are in a queue for members of this module.
const sealedNode = "sealed"

// readSeal reads what stands where a seal is. ok: it is one. In a queue the name tells;
// at a fixed path any other node is somebody's lock.
func readSeal(r reading) (s seal, ok bool) {
	to, ok := strings.CutPrefix(string(r.data), sealText)
	if to = backend.Clean(to, backend.MaxMark, false); to == "" {
		to = "?"
	}
	return seal{true, to, r.stat.Version}, ok && !r.missing && r.stat.EphemeralOwner == 0
}

// sealOf is the path of an election's seal.
func (l *layout) sealPath(election string) string { return l.nodePath(election, sealChild) }

// forgetSeal makes the next look at an election's seal read it again.
func (b *Backend) forgetSeal(s *session, election string) {
	s.cache.forget(b.layout.lockKind(), b.layout.lockPath(election))
	s.cache.forget(uniqueData, b.layout.sealPath(election))
}

// underSeal reports whether an election is sealed at a fixed path, where a holder has
// no node.
func (snap *snapshot) fixedPathSealed(b *Backend) bool {
	return snap.queue.sealed && b.layout.kind == Node
}
