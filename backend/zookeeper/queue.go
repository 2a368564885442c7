package zookeeper

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// A queue is what stands at an election.
type queue struct {
	names    []string // of all nodes; at a fixed path: its czxid
	hasOurs  bool     // a node of ours is among them
	oursLost bool     // a node of ours, which should be, is not
	blocked  bool     // a node of another program is before ours, or before where ours would be
	foreign  string   // a node of another program that is the first of all, or "". At a fixed path: any that is not ours
	first    reading  // what it holds
	parent   reading  // where it is, as it was before the queue was read; at a fixed path, and behind a seal: nothing
	created  int32    // how many nodes were ever made there
	seal
}

// queued reads what stands at an election.
func (b *Backend) readQueue(ctx context.Context, s *session, election string, mode readMode, get func(kind, string) (reading, error)) (q queue, err error) {
	id, _ := s.idAndEpoch()
	own := b.lockOf(election)
	ours := own.node != "" && own.session == id
	lock := b.layout.lockPath(election)
	if b.layout.kind == Node {
		r, err := get(nodeData, lock)
		if err != nil || r.missing {
			return queue{oursLost: ours}, err
		}
		if seal, ok := readSeal(r); ok {
			return queue{seal: seal, hasOurs: ours && own.node == sealedNode, oursLost: ours && own.node != sealedNode}, nil
		}
		name := nodeName(r)
		q = queue{names: []string{name}, first: r, hasOurs: ours && name == own.node, oursLost: ours && name != own.node}
		if q.blocked = !q.hasOurs; q.blocked {
			q.foreign = name // if its owner is
		}
		return q, nil
	}
	for range 5 {
		var at reading
		if mode.watch { // who only looks grants nothing
			if at, err = get(existence, lock); err != nil {
				return queue{}, err
			}
		}
		r, err := get(childNames, lock)
		if err != nil {
			return queue{}, err
		}
		q = queue{names: r.children, hasOurs: ours && slices.Contains(r.children, own.node)}
		q.oursLost = ours && !q.hasOurs
		if slices.Contains(r.children, sealChild) {
			// Nobody else leads, whoever stands there.
			r, err := get(uniqueData, lock+"/"+sealChild)
			if err == nil && r.missing {
				s.cache.forget(childNames, lock) // broken just now
				continue
			}
			q.seal, _ = readSeal(r)
			return q, err
		}
		first, foreign := b.layout.first(r.children), b.layout.firstForeign(r.children)
		q.blocked = foreign != "" && !(q.hasOurs && b.layout.before(own.node, foreign))
		if int(r.stat.NumChildren) == len(r.children) {
			q.parent, q.created = at, createdChildren(r.stat)
		}
		if foreign == "" || foreign != first {
			return q, nil
		}
		q.foreign = foreign
		if q.first, err = get(uniqueData, lock+"/"+foreign); err != nil || !q.first.missing {
			return q, err
		}
		s.cache.forget(childNames, lock) // it is gone
	}
	return queue{}, fmt.Errorf("%w: the nodes at %.200q change too quickly to be read", backend.ErrUnavailable, lock)
}

// made is how many nodes were ever made in a queue, which is the number of the next: each
// counts once when it is made, and once when it is deleted.
func createdChildren(stat zk.Stat) int32 { return (stat.Cversion + stat.NumChildren) / 2 }

// lockKind is how what stands at an election is read.
func (l *layout) lockKind() kind {
	if l.kind == Node {
		return nodeData
	}
	return childNames
}

// first returns the child that is first, or "".
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

// foreignID is the id of a member that is not ours: what its node holds, or else
// the node's name.
func foreignID(data []byte, name string) string {
	if id := backend.Clean(string(data), backend.MaxID, false); id != "" {
		return id
	}
	return backend.Clean(name, backend.MaxID, false)
}

// isNext reports whether the server gave the next number, after so many nodes that were
// made in a queue, to a node for which it was asked: see the package documentation, "What
// could two processes each believe?". Above 2^30 nodes what the stat tells is no count.
func isNextNumber(node, asked string, made int32) bool {
	return node == fmt.Sprintf("%s%010d", asked, made)
}
