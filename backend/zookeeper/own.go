package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// own is what this Backend has, or may have, at an election.
type own struct {
	session int64   // that the node belongs to
	asked   string  // how the name of a node begins that was asked for; "": none
	node    string  // its name; "": not known whether it was made
	term    uint64  // that it was granted; 0: it is queued, or was left
	grant   int     // number of the grant in the session
	home    int64   // czxid of the session's own node, under which it was granted
	version int32   // of the record, when it was last known
	record  *record // the record as of then
	pending int     // requests to make a node whose calls have given up
}

// empty reports whether there is nothing in the store.
func (o *own) empty() bool { return o.asked == "" && o.node == "" && o.pending == 0 }

// reset notes that there is nothing but requests on their way.
func (o *own) reset() { *o = own{pending: o.pending} }

// mine returns a copy of what is ours at an election.
func (b *Backend) mine(election string) own {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.own[election]; o != nil {
		return *o
	}
	return own{}
}

// note changes what is ours at an election.
func (b *Backend) note(election string, change func(*own)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked(election, change)
}

// claim notes what is about to be asked for in a session, unless that is being
// replaced: it would be closed under a grant.
func (b *Backend) claim(s *session, election string, change func(*own)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.leaving {
		return errReplaced
	}
	b.noteLocked(election, change)
	return nil
}

func (b *Backend) noteLocked(election string, change func(*own)) {
	o := b.own[election]
	if o == nil {
		o = &own{}
		b.own[election] = o
	}
	change(o)
	if o.empty() {
		delete(b.own, election)
	}
}

// grants returns the numbers of the session's grants that are held.
func (b *Backend) grants(id int64) (list []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.own {
		if o.session == id && o.term != 0 {
			list = append(list, o.grant)
		}
	}
	return list
}

// weight is how many bytes the paths of the session's nodes have.
func (b *Backend) weight(id int64) (bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, o := range b.own {
		if o.session == id {
			bytes += len(b.layout.lock(name)) + 64
		}
	}
	return bytes
}

// maxWeight bounds that. Closing a session deletes all of its nodes in one
// transaction, whose paths must fit into what servers accept of each other
// (ZOOKEEPER-4306: 2 MB of them took an ensemble down for good).
const maxWeight = 512 << 10

// settle finds out what has become of a node that was asked for under a name
// that is known, and deletes what is left of a session before this one.
func (b *Backend) settle(ctx context.Context, s *session, election string) error {
	id, _ := s.present()
	o := b.mine(election)
	if o.pending > 0 {
		return fmt.Errorf("%w: an earlier request has not been answered yet", backend.ErrUnavailable)
	}
	if o.asked != "" && o.node == "" {
		if err := s.sync(ctx); err != nil {
			return err
		}
		name, owner, err := b.search(ctx, s, election, o)
		if err != nil {
			return err
		}
		o.node, o.session = name, owner
		if name == "" { // it was never made, nor will it be: what was sent before this look was done before it
			b.note(election, (*own).reset)
			return nil
		}
		b.note(election, func(o *own) { o.node, o.session = name, owner })
	}
	if o.node != "" && o.session != id {
		// The library has opened a new session. What is left of the old one is
		// never taken over: it may vanish at any moment.
		return b.drop(ctx, s, election, o)
	}
	return nil
}

// search looks for the node that was asked for.
func (b *Backend) search(ctx context.Context, s *session, election string, o own) (name string, owner int64, err error) {
	lock := b.layout.lock(election)
	if b.layout.kind == Node {
		id, _ := s.present()
		r, err := s.cache.plain(ctx, data, lock)
		if err != nil || r.missing || r.stat.EphemeralOwner != id && r.stat.EphemeralOwner != o.session {
			return "", 0, err
		}
		return nodeName(r), r.stat.EphemeralOwner, nil
	}
	r, err := s.cache.plain(ctx, children, lock)
	if err != nil {
		return "", 0, err
	}
	at := slices.IndexFunc(r.children, func(n string) bool { return strings.HasPrefix(n, o.asked) })
	if at < 0 {
		return "", 0, nil
	}
	name = r.children[at]
	node, err := s.cache.plain(ctx, once, lock+"/"+name)
	if err != nil || node.missing {
		return "", 0, err
	}
	return name, node.stat.EphemeralOwner, nil
}

// drop deletes a node of ours.
func (b *Backend) drop(ctx context.Context, s *session, election string, o own) error {
	for range 3 {
		version, there, err := b.standing(ctx, s, election, o.node, sessionName(o.session))
		if err != nil {
			return err
		}
		if there {
			failed := 0
			_, failed, err = s.write(ctx, b.ending(election, o.node, sessionName(o.session), version)...)
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
				return err
			}
			if b.layout.kind == Node && err != nil && failed == 0 {
				if err := b.rehome(ctx, s, o.session); err != nil {
					return err
				}
			}
		}
		// In a queue no name comes back: if it is not there, it is gone.
		if err == nil || b.layout.kind != Node && errors.Is(err, zk.ErrNoNode) {
			b.note(election, func(now *own) { clearNode(now, o) })
			return nil
		}
	}
	return fmt.Errorf("%w: the node at %.200q changes too quickly", backend.ErrUnavailable, b.layout.lock(election))
}

// standing returns the version of a node of ours that is to be deleted, which the
// session owns, and whether it is there. In a queue nobody else has its name, and so
// there is nothing to ask.
func (b *Backend) standing(ctx context.Context, s *session, election, node, session string) (version int32, there bool, err error) {
	if b.layout.kind != Node {
		return -1, true, nil
	}
	r, err := s.cache.plain(ctx, data, b.layout.lock(election))
	is := nodeName(r) == node || node == underSeal // made when the seal was broken, and not recorded yet
	if err != nil || r.missing || !is || sessionName(r.stat.EphemeralOwner) != session {
		return 0, false, err
	}
	return r.stat.Version, true, nil
}

// ending are the writes that delete a node of ours. At a path that anybody uses
// they are made only while the session lives that owns the node, as its own node
// tells. Until then nobody else can have made another there; and when our session
// has ended, and the library sends this by the next one, it may be a leader's.
func (b *Backend) ending(election, node, session string, version int32) []any {
	gone := &zk.DeleteRequest{Path: b.layout.node(election, node), Version: version}
	if b.layout.kind != Node {
		return []any{gone}
	}
	return []any{&zk.CheckVersionRequest{Path: b.layout.sessionOf(session), Version: -1}, gone}
}

// rehome makes the present session's own node again, which was found to be missing.
// Of another session id there is nothing left, or the ensemble will see to it.
func (b *Backend) rehome(ctx context.Context, s *session, id int64) error {
	if now, _ := s.present(); id != now {
		return errEnded
	}
	s.homeless(id)
	s.mu.Lock()
	who := backend.Candidate{Nonce: s.heartbeats.Nonce, ID: s.heartbeats.ID}
	s.mu.Unlock()
	_, err := b.prepare(ctx, s, who)
	return err
}

// clearNode notes that a node is gone.
func clearNode(now *own, gone own) {
	if now.node == gone.node {
		now.reset()
	}
}

// lockNode is a request for a node of ours in an election, and how the node's name
// will begin.
func (b *Backend) lockNode(bid backend.Bid) (request *zk.CreateRequest, name string) {
	request = &zk.CreateRequest{Path: b.layout.lock(bid.Election), Data: []byte(bid.Candidate.ID), Acl: b.acl, Flags: zk.FlagEphemeral}
	if b.options.Data == "address" {
		request.Data = []byte(bid.Candidate.Address)
	}
	if name = b.layout.newName(); b.layout.kind != Node {
		request.Path += "/" + name
		request.Flags |= zk.FlagSequence
	}
	return request, name
}

// room reports an error if the session cannot take another node.
func (b *Backend) room(id int64, election string) error {
	if w := b.weight(id) + len(b.layout.lock(election)) + 64; w > maxWeight {
		return fmt.Errorf("%w: the nodes of this session would have %d bytes of paths, and servers may fail to close a session with more than %d: spread the elections over several Backends, or shorten their paths", backend.ErrDenied, w, maxWeight)
	}
	return nil
}

// enqueue makes our node in an election.
func (b *Backend) enqueue(ctx context.Context, s *session, id int64, bid backend.Bid) error {
	election := bid.Election
	if err := b.room(id, election); err != nil {
		return err
	}
	request, asked := b.lockNode(bid)
	path, lock := request.Path, b.layout.lock(election)
	if err := b.claim(s, election, func(o *own) { *o = own{asked: asked, session: id, pending: o.pending} }); err != nil {
		return err
	}
	var made string
	for try := 0; ; try++ {
		var err error
		made, err = b.create(ctx, s, election, request)
		if errors.Is(err, zk.ErrNoNode) && try < 3 {
			if err := b.parents(ctx, s, path, b.layout.kind != Node); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, zk.ErrNodeExists) { // Node layout: somebody has it
			b.note(election, (*own).reset)
			return nil
		}
		if err != nil {
			if isNamed(err) { // refused: it was not made
				b.note(election, (*own).reset)
			}
			return err
		}
		break
	}
	name := made[strings.LastIndexByte(made, '/')+1:]
	if b.layout.kind == Node {
		r, err := s.cache.plain(ctx, data, lock)
		if err != nil {
			return err
		}
		if r.missing || r.stat.EphemeralOwner != id {
			// Deleted by somebody's hand; or the session has changed, and the node belongs
			// to the next one, under which it would block everybody. We have asked for it,
			// and settle finds out.
			return errEnded
		}
		name = nodeName(r)
	}
	b.note(election, func(o *own) { o.node, o.session = name, id })
	return nil
}

// create makes a lock node, and keeps account of a request that outlives its call.
func (b *Backend) create(ctx context.Context, s *session, election string, r *zk.CreateRequest) (string, error) {
	begin, end := b.account(election)
	return callAfter(ctx, s, begin, func(c *zk.Conn) (string, error) {
		defer end()
		return c.Create(r.Path, r.Data, r.Flags, r.Acl)
	})
}

// account returns what to call before and after a request that makes a lock node.
func (b *Backend) account(election string) (begin, end func()) {
	return func() { b.note(election, func(o *own) { o.pending++ }) }, func() { b.note(election, func(o *own) { o.pending-- }) }
}

// parents makes the parents of a path. The last one is a container, if that is
// wanted and the servers know such: Curator does the same.
func (b *Backend) parents(ctx context.Context, s *session, path string, container bool) error {
	parts := strings.Split(path[1:], "/")
	at := ""
	for i, part := range parts[:len(parts)-1] {
		at += "/" + part
		_, err := call(ctx, s, func(c *zk.Conn) (string, error) {
			if container && i == len(parts)-2 {
				path, err := c.CreateContainer(at, nil, zk.FlagContainer, b.acl)
				if err == nil || errors.Is(err, zk.ErrNodeExists) || isNamed(err) || errors.Is(err, zk.ErrConnectionClosed) {
					return path, err
				}
			}
			return c.Create(at, nil, zk.FlagPersistent, b.acl)
		})
		if errors.Is(err, zk.ErrNoAuth) { // it may be there, and not ours to add to
			if r, err2 := s.cache.plain(ctx, once, at); err2 == nil && !r.missing {
				continue
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("make %s: %w", at, err)
		}
	}
	return nil
}

// prepare makes what the session needs: our own parents, the session's own node,
// and the member record as it was last announced.
func (b *Backend) prepare(ctx context.Context, s *session, who backend.Candidate) (id int64, err error) {
	id, _ = s.present()
	s.mu.Lock()
	ready := s.node == id
	s.mu.Unlock()
	if ready {
		return id, nil
	}
	first := heartbeats{Nonce: who.Nonce, ID: who.ID}
	path := b.layout.sessionOf(sessionName(id))
	for try := 0; ; try++ {
		_, err = call(ctx, s, func(c *zk.Conn) (string, error) {
			return c.Create(path, first.encode(), zk.FlagEphemeral, b.acl)
		})
		if !errors.Is(err, zk.ErrNoNode) || try > 0 {
			break
		}
		for _, parent := range []string{b.layout.record, b.layout.members, b.layout.session} {
			if err := b.parents(ctx, s, parent+"/x", false); err != nil {
				return 0, err
			}
		}
	}
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return 0, err
	}
	r, err := s.cache.plain(ctx, once, path)
	if err != nil {
		return 0, err
	}
	if !r.missing && r.stat.EphemeralOwner != id { // somebody has made it by hand: nobody else has this name
		if _, _, err := s.write(ctx, &zk.DeleteRequest{Path: path, Version: r.stat.Version}); err != nil {
			return 0, err
		}
	}
	if r.missing || r.stat.EphemeralOwner != id {
		return 0, errEnded // or is to be seen again
	}
	if now, _ := s.present(); now != id {
		return 0, fmt.Errorf("%w: the session has just ended", backend.ErrUnavailable)
	}
	s.at(&r.stat)
	s.mu.Lock()
	if s.node != id { // or another call was faster, and a renewal has written since
		s.node, s.home, s.version, s.heartbeats = id, r.stat.Czxid, r.stat.Version, *parseHeartbeats(r.data)
		s.heartbeats.Nonce, s.heartbeats.ID = who.Nonce, who.ID
	}
	s.mu.Unlock()
	b.mu.Lock()
	m := b.member
	b.mu.Unlock()
	if m != nil {
		if err := b.announce(ctx, s, *m); err != nil {
			return 0, err
		}
	}
	return id, nil
}
