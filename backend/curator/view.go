package curator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/ensemble"
)

// A view is the nodes of one election as they were read. It is not changed.
type view struct {
	watches [2]*ensemble.Watch // of the lock, and of the names of the marks
	session int64              // of this process, in which it was read

	names  []string      // of the nodes in the queue, in its order
	node   ensemble.Node // at a fixed path
	marks  []mark        // greatest term first
	term   uint64        // the greatest in which the lock was taken, or 0
	sealed bool

	foreign string        // the first node of another program; "": there is none
	leads   bool          // it comes before all of ours, or is the one at the fixed path
	leader  ensemble.Node // then: what it is
}

// A mark says that a member of this module has taken the lock. It is an ephemeral node, made and deleted with
// the lock node, by the same session: while it is there, the node at a fixed path is its maker's.
type mark struct {
	term  uint64
	node  string // the name of the node in a queue
	owner int64  // the session
}

// mark returns the mark of a term; nil: the lock is not taken in it.
func (v *view) mark(term uint64) *mark {
	at := slices.IndexFunc(v.marks, func(m mark) bool { return m.term == term })
	if at < 0 {
		return nil
	}
	return &v.marks[at]
}

// places returns the names of this process's nodes in a queue, in order: several if an answer was lost.
func (k *lock) places(v *view) (own []string) {
	prefix := k.layout.nodePrefix(v.session)
	for _, name := range v.names {
		if strings.HasPrefix(name, prefix) {
			own = append(own, name)
		}
	}
	return own
}

// view reads an election, from memory as far as watches say that it has not changed. If it changes meanwhile
// it is read again, so that its parts are of one time: a node that goes, or comes, is told by a watch before
// the answer that shows it.
func (k *lock) view(ctx context.Context, election string) (*view, error) {
	for range 8 {
		v, err := k.read(ctx, election)
		if err != nil {
			return nil, err
		}
		if !v.watches[0].Over() && !v.watches[1].Over() {
			return v, nil
		}
	}
	return nil, errBusy
}

// read reads an election.
func (k *lock) read(ctx context.Context, election string) (*view, error) {
	at, err := k.session.Watched(ctx, k.layout.read, k.layout.lockPath(election))
	if err != nil {
		return nil, err
	}
	held, err := k.session.Watched(ctx, ensemble.Children, k.layout.heldPath(election))
	if err != nil {
		return nil, err
	}
	// If the session has changed in between, the watches are over.
	v := &view{watches: [2]*ensemble.Watch{at.Watch, held.Watch}, session: k.session.Connection().ID}
	for _, name := range held.Children {
		term, err := strconv.ParseUint(name, 16, 64)
		if err != nil || len(name) != 16 {
			continue
		}
		n, err := k.session.Watched(ctx, ensemble.Data, k.layout.markPath(election, term))
		if err != nil {
			return nil, err
		}
		v.marks = append(v.marks, mark{term, string(n.Data), n.Stat.EphemeralOwner})
		v.term = max(v.term, term)
	}
	slices.SortFunc(v.marks, func(a, b mark) int { return cmp.Compare(b.term, a.term) })

	if k.layout.kind == Node {
		k.seeNode(v, at)
		return v, nil
	}
	return v, k.seeQueue(ctx, election, v, at.Children)
}

// seeNode says whose the node at a fixed path is. This module writes once what it makes, others only create.
func (k *lock) seeNode(v *view, n ensemble.Node) {
	v.node = n
	switch {
	case n.Missing:
		return
	case n.Stat.EphemeralOwner == 0 && strings.HasPrefix(string(n.Data), sealText):
		v.sealed = true
		return
	case v.marks != nil && v.marks[0].owner == n.Stat.EphemeralOwner && n.Stat.Version == 1:
		return
	}
	v.foreign, v.leads, v.leader = "node", true, n
}

// seeQueue says who comes first in a queue of nodes with these names.
func (k *lock) seeQueue(ctx context.Context, election string, v *view, names []string) (err error) {
	v.sealed = slices.Contains(names, sealChild)
	v.names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == sealChild })
	slices.SortFunc(v.names, k.layout.compare)
	first := slices.IndexFunc(v.names, func(name string) bool { return !k.layout.isOurs(name) })
	if first >= 0 {
		v.foreign, v.leads = v.names[first], first == 0 && !v.sealed
	}
	if v.leads {
		v.leader, err = k.session.Watched(ctx, ensemble.Data, k.layout.nodePath(election, v.foreign))
	}
	return err
}

// state says what a view means to who bids.
func (k *lock) state(v *view) beside.State {
	s := beside.State{Sealed: v.sealed, Seen: v.term}
	if v.leads {
		s.Who = clean.Text(cmp.Or(string(v.leader.Data), v.foreign), backend.MaxID, false)
		s.Version = fmt.Sprintf("node %x %d", v.leader.Stat.Czxid, v.leader.Stat.Version)
		s.Firm = true
		return s
	}
	s.Term, s.Free = v.term, v.term == 0
	s.Version = fmt.Sprintf("term %d", s.Term)
	s.Firm = k.blocked(v)
	return s
}

// blocked reports whether other programs keep a taking out: one comes before our node, or we have none.
func (k *lock) blocked(v *view) bool {
	if v.foreign == "" || v.sealed {
		return false
	}
	own := k.places(v)
	return own == nil || k.layout.compare(v.foreign, own[0]) < 0
}

// A seal keeps every program that elects by a lock from leading: in a queue it is a PERSISTENT child that
// comes before all others, at a fixed path a PERSISTENT node. It outlives all sessions, so no other node
// becomes the first. A member of Curator's LeaderLatch takes it for the leader, and watches it.
const (
	sealChild = "+moved" // sorts before all numbers that servers give
	sealText  = "moved"
)

// remove returns the writes that remove marks with their nodes, and those of places that are in the queue.
// own is our own node in the queue, which stays.
func (k *lock) remove(v *view, election string, marks []mark, places []string, own string) (ops []any) {
	for _, m := range marks {
		ops = append(ops, &zk.DeleteRequest{Path: k.layout.markPath(election, m.term), Version: -1})
		if m.node != own {
			places = append(places, m.node)
		}
	}
	at := v.node.Stat
	isOurs := func(m mark) bool { return m.owner == at.EphemeralOwner }
	if at.EphemeralOwner != 0 && slices.ContainsFunc(marks, isOurs) {
		ops = append(ops, &zk.DeleteRequest{Path: k.layout.lockPath(election), Version: at.Version})
	}
	for _, name := range v.names {
		if slices.Contains(places, name) {
			ops = append(ops, &zk.DeleteRequest{Path: k.layout.nodePath(election, name), Version: -1})
		}
	}
	return ops
}

// lockOps returns the writes that make or check the lock of o. node is our node in the queue. take: at a
// fixed path there is no node of ours yet.
func (k *lock) lockOps(v *view, o *beside.Owned, node string, take bool) (ops []any) {
	seal := k.layout.nodePath(o.Election, sealChild)
	makeSeal := &zk.CreateRequest{Path: seal, Data: []byte(sealText), Acl: k.access.ACL}
	if k.layout.kind == Node {
		switch {
		case v.sealed && o.Sealed:
			return []any{&zk.CheckVersionRequest{Path: seal, Version: v.node.Stat.Version}}
		case v.sealed:
			ops = append(ops, &zk.DeleteRequest{Path: seal, Version: v.node.Stat.Version})
		case !take && !o.Sealed:
			return []any{&zk.CheckVersionRequest{Path: seal, Version: 1}}
		case !take:
			ops = append(ops, &zk.DeleteRequest{Path: seal, Version: 1})
		}
		if o.Sealed {
			return append(ops, makeSeal)
		}
		create := k.newNode(v, o)
		return append(ops, create, &zk.SetDataRequest{Path: seal, Data: create.Data, Version: 0})
	}

	ours := &zk.CheckVersionRequest{Path: k.layout.nodePath(o.Election, node), Version: -1}
	switch {
	case v.sealed && o.Sealed: // the queue decides nothing
		return []any{&zk.CheckVersionRequest{Path: seal, Version: -1}}
	case o.Sealed:
		return []any{ours, makeSeal}
	case !v.sealed:
		return []any{ours}
	}
	ops = []any{ours, &zk.DeleteRequest{Path: seal, Version: -1}}
	for _, name := range v.names { // their owners have waited without leading, and queue again
		if !k.layout.isOurs(name) && k.layout.compare(name, node) < 0 {
			ops = append(ops, &zk.DeleteRequest{Path: k.layout.nodePath(o.Election, name), Version: -1})
		}
	}
	return ops
}

// newNode returns the request for a lock node of the session of a view.
func (k *lock) newNode(v *view, o *beside.Owned) *zk.CreateRequest {
	r := &zk.CreateRequest{Path: k.layout.lockPath(o.Election), Data: []byte(o.ID), Acl: k.access.ACL}
	r.Flags = zk.FlagEphemeral
	if k.layout.kind != Node {
		r.Path += "/" + k.layout.nodePrefix(v.session) + k.layout.base
		r.Flags |= zk.FlagSequence
	}
	return r
}
