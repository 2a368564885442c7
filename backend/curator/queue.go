package curator

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// A queue holds the lock nodes of an election.
type queue struct {
	names    []string      // names of all nodes; at a fixed path: the node's czxid
	hasOurs  bool          // our node is among them
	oursLost bool          // our node should be among them, and is not
	blocked  bool          // a node of another program is before ours, or before where ours would be
	foreign  string        // the first of all nodes, if it belongs to another program, or "". At a fixed path: any that is not ours
	first    ensemble.Node // the node named by foreign
	parent   ensemble.Node // the queue's own node, read before the queue; empty at a fixed path and behind a seal
	created  int32         // how many nodes were ever created in it
	seal
}

// readQueue reads the lock nodes of an election.
func (b *Backend) readQueue(ctx context.Context, s *session, election string, mode readMode, get readFunc) (q queue, err error) {
	id := s.id()
	own := b.lockOf(election)
	ours := own.node != "" && own.session == id
	lock := b.layout.lockPath(election)
	if b.layout.kind == Node {
		r, err := get(ensemble.Data, lock)
		if err != nil || r.Missing {
			return queue{oursLost: ours}, err
		}
		if seal, ok := readSeal(r); ok {
			return queue{seal: seal, hasOurs: ours && own.node == sealedNode, oursLost: ours && own.node != sealedNode}, nil
		}
		name := nodeName(r)
		q = queue{names: []string{name}, first: r, hasOurs: ours && name == own.node, oursLost: ours && name != own.node}
		if q.blocked = !q.hasOurs; q.blocked {
			q.foreign = name // if its owner belongs to another program
		}
		return q, nil
	}
	for range 5 {
		var at ensemble.Node
		if mode.watch { // a read without watches leads to no grant
			if at, err = get(ensemble.Existence, lock); err != nil {
				return queue{}, err
			}
		}
		r, err := get(ensemble.Children, lock)
		if err != nil {
			return queue{}, err
		}
		q = queue{names: r.Children, hasOurs: ours && slices.Contains(r.Children, own.node)}
		q.oursLost = ours && !q.hasOurs
		if slices.Contains(r.Children, sealChild) {
			// No other program leads, whatever nodes there are.
			r, err := get(ensemble.Unique, lock+"/"+sealChild)
			if err == nil && r.Missing {
				s.Watches.Forget(ensemble.Children, lock) // just broken
				continue
			}
			q.seal, _ = readSeal(r)
			return q, err
		}
		first, foreign := b.layout.first(r.Children), b.layout.firstForeign(r.Children)
		q.blocked = foreign != "" && !(q.hasOurs && b.layout.before(own.node, foreign))
		if int(r.Stat.NumChildren) == len(r.Children) {
			q.parent, q.created = at, createdChildren(r.Stat)
		}
		if foreign == "" || foreign != first {
			return q, nil
		}
		q.foreign = foreign
		if q.first, err = get(ensemble.Unique, lock+"/"+foreign); err != nil || !q.first.Missing {
			return q, err
		}
		s.Watches.Forget(ensemble.Children, lock) // it is gone
	}
	return queue{}, fmt.Errorf("%w: the nodes at %.200q change too quickly to be read", backend.ErrUnavailable, lock)
}

// unmoved reports whether the queue's own node was neither deleted nor made again before the last answer on
// this connection: it is watched since it was read, and servers report a change before they answer later requests.
func (q *queue) unmoved() bool {
	at := &q.parent
	return at.Watch != nil && !at.Missing && !at.Watch.Over()
}

// createdChildren returns how many nodes were ever created in a queue, which is the number
// of the next: cversion counts each node when it is created and when it is deleted.
func createdChildren(stat zk.Stat) int32 { return (stat.Cversion + stat.NumChildren) / 2 }

// lockKind is the kind of read for the lock of an election.
func (l *layout) lockKind() ensemble.Kind {
	if l.kind == Node {
		return ensemble.Data
	}
	return ensemble.Children
}

// first returns the first child, or "".
func (l *layout) first(names []string) (least string) {
	for _, n := range names {
		if least == "" || l.before(n, least) {
			least = n
		}
	}
	return least
}

// firstForeign returns the first child that is not ours, or "".
func (l *layout) firstForeign(names []string) (least string) {
	for _, n := range names {
		if !l.isOurs(n) && (least == "" || l.before(n, least)) {
			least = n
		}
	}
	return least
}

// foreignID returns the id of a member of another program: its node's data, or else the
// node's name.
func foreignID(data []byte, name string) string {
	if id := clean.Text(string(data), backend.MaxID, false); id != "" {
		return id
	}
	return clean.Text(name, backend.MaxID, false)
}

// isNextNumber reports whether the server gave a node, requested with this prefix of a name,
// the next number after that many created nodes. See docs/design/curator.md, "Members of
// other programs". Above 2^30 nodes the stat is no longer a count.
func isNextNumber(node, prefix string, created int32) bool {
	return node == fmt.Sprintf("%s%010d", prefix, created)
}
