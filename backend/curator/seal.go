package curator

import (
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/ensemble"
)

// A seal keeps every program that elects by a lock from leading: in a queue it is a
// PERSISTENT child that comes before all others, at a fixed path a PERSISTENT node. It
// outlives all sessions, so no other node becomes the first. A member of Curator's
// LeaderLatch takes it for the leader, and watches it. See docs/design/curator.md,
// "Seals".
type seal struct {
	sealed  bool
	to      string // the store that the election has moved to
	version int32
}

// sealChild is the name of a seal in a queue. It sorts before all numbers that servers
// give.
const sealChild = "+moved"

// sealText precedes the name of the store in a seal. A program that shows the leader's id
// shows this.
const sealText = "moved to "

// sealedNode stands for the lock node of a holder that needs none: at a fixed path there is
// room for the seal alone. The lease is then the record and the session record, as it is
// for members of this module in a queue.
const sealedNode = "sealed"

// readSeal reads the node at the place of a seal. ok: it is a seal. In a queue the name
// tells; at a fixed path any other node is a lock.
func readSeal(r ensemble.Node) (s seal, ok bool) {
	to, ok := strings.CutPrefix(string(r.Data), sealText)
	if to = clean.Text(to, backend.MaxMark, false); to == "" {
		to = "?"
	}
	return seal{true, to, r.Stat.Version}, ok && !r.Missing && r.Stat.EphemeralOwner == 0
}

// sealPath returns the path of an election's seal.
func (l *layout) sealPath(election string) string { return l.nodePath(election, sealChild) }

// forgetSeal makes the next read of an election's seal ask the server.
func (b *Backend) forgetSeal(s *session, election string) {
	s.Watches.Forget(b.layout.lockKind(), b.layout.lockPath(election))
	s.Watches.Forget(ensemble.Unique, b.layout.sealPath(election))
}

// fixedPathSealed reports whether an election is sealed at a fixed path, where a holder has
// no node.
func (snap *snapshot) fixedPathSealed(b *Backend) bool {
	return snap.queue.sealed && b.layout.kind == Node
}
