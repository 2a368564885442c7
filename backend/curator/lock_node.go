package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// resolveLock finds out whether a node that was requested exists, by its unique name, and
// deletes what remains of an earlier session.
func (b *Backend) resolveLock(ctx context.Context, s *session, election string) error {
	id := s.id()
	own := b.lockOf(election)
	if own.pending > 0 {
		return fmt.Errorf("%w: an earlier request has not been answered yet", backend.ErrUnavailable)
	}
	if own.namePrefix != "" && own.node == "" {
		if err := s.sync(ctx); err != nil {
			return err
		}
		name, owner, err := b.findLockNode(ctx, s, election, own)
		if err != nil {
			return err
		}
		own.node, own.session = name, owner
		if name == "" { // no request that was sent before this read can still create it
			b.updateLock(election, (*ownLock).reset)
			return nil
		}
		b.updateLock(election, func(own *ownLock) { own.node, own.session = name, owner })
	}
	if own.node != "" && own.session != id {
		// There is a new session. What remains of the old one is never taken
		// over: it may vanish at any moment.
		return b.deleteLockNode(ctx, s, election, own)
	}
	return nil
}

// findLockNode looks for the node that was requested.
func (b *Backend) findLockNode(ctx context.Context, s *session, election string, own ownLock) (name string, owner int64, err error) {
	lock := b.layout.lockPath(election)
	if b.layout.kind == Node {
		id := s.id()
		r, err := s.ReadNode(ctx, ensemble.Data, lock)
		if err != nil || r.Missing || r.Stat.EphemeralOwner != id && r.Stat.EphemeralOwner != own.session {
			return "", 0, err
		}
		return nodeName(r), r.Stat.EphemeralOwner, nil
	}
	r, err := s.ReadNode(ctx, ensemble.Children, lock)
	if err != nil {
		return "", 0, err
	}
	at := slices.IndexFunc(r.Children, func(n string) bool { return strings.HasPrefix(n, own.namePrefix) })
	if at < 0 {
		return "", 0, nil
	}
	name = r.Children[at]
	node, err := s.ReadNode(ctx, ensemble.Unique, lock+"/"+name)
	if err != nil || node.Missing {
		return "", 0, err
	}
	return name, node.Stat.EphemeralOwner, nil
}

// deleteLockNode deletes a node of ours.
func (b *Backend) deleteLockNode(ctx context.Context, s *session, election string, own ownLock) error {
	for range 3 {
		version, there, err := b.lockNodeVersion(ctx, s, election, own.node, sessionName(own.session))
		if err != nil {
			return err
		}
		if there {
			failed := 0
			_, failed, err = s.write(ctx, b.deleteOps(election, own.node, sessionName(own.session), version)...)
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
				return err
			}
			if b.layout.kind == Node && err != nil && failed == 0 {
				if err := b.restoreSessionRecord(ctx, s, own.session); err != nil {
					return err
				}
			}
		}
		// In a queue names are unique: a node that is not there is gone for good.
		if err == nil || b.layout.kind != Node && errors.Is(err, zk.ErrNoNode) {
			b.updateLock(election, func(now *ownLock) { forgetNode(now, own) })
			return nil
		}
	}
	return fmt.Errorf("%w: the node at %.200q changes too quickly", backend.ErrUnavailable, b.layout.lockPath(election))
}

// lockNodeVersion returns the version of our node, which the session owns and which is to
// be deleted, and whether the node exists. In a queue its name is unique, so there is
// nothing to read.
func (b *Backend) lockNodeVersion(ctx context.Context, s *session, election, node, session string) (version int32, there bool, err error) {
	if b.layout.kind != Node {
		return -1, true, nil
	}
	r, err := s.ReadNode(ctx, ensemble.Data, b.layout.lockPath(election))
	is := nodeName(r) == node || node == sealedNode // created when the seal was broken, but not recorded yet
	if err != nil || r.Missing || !is || sessionName(r.Stat.EphemeralOwner) != session {
		return 0, false, err
	}
	return r.Stat.Version, true, nil
}

// deleteOps returns the writes that delete a node of ours. At a fixed path they apply only
// while the session record of the node's owner exists, because then nobody else can have
// created a node there. Without that check, a request that is made in our next session, after
// this one was read, could delete another leader's node.
func (b *Backend) deleteOps(election, node, session string, version int32) []any {
	del := &zk.DeleteRequest{Path: b.layout.nodePath(election, node), Version: version}
	if b.layout.kind != Node {
		return []any{del}
	}
	return []any{&zk.CheckVersionRequest{Path: b.layout.sessionPath(session), Version: -1}, del}
}

// newLockNode returns a request for a lock node of ours, and the prefix of the node's name.
func (b *Backend) newLockNode(bid backend.Bid) (request *zk.CreateRequest, name string) {
	request = &zk.CreateRequest{Path: b.layout.lockPath(bid.Election), Data: []byte(bid.Candidate.ID), Acl: b.access.ACL, Flags: zk.FlagEphemeral}
	if b.options.Data == "address" {
		request.Data = []byte(bid.Candidate.Address)
	}
	if name = b.layout.newNodeName(); b.layout.kind != Node {
		request.Path += "/" + name
		request.Flags |= zk.FlagSequence
	}
	return request, name
}

// makeLockNode creates our node in an election.
func (b *Backend) makeLockNode(ctx context.Context, s *session, id int64, bid backend.Bid) error {
	election := bid.Election
	if err := b.checkPathBytes(id, election); err != nil {
		return err
	}
	request, prefix := b.newLockNode(bid)
	path, lock := request.Path, b.layout.lockPath(election)
	if err := b.updateUnlessReplaced(s, election, func(own *ownLock) { *own = ownLock{namePrefix: prefix, session: id, pending: own.pending} }); err != nil {
		return err
	}
	begin, end := b.trackPending(election)
	var created string
	for try := 0; ; try++ {
		results, _, err := s.writeAfter(ctx, begin, end, request)
		if errors.Is(err, zk.ErrNoNode) && try < 3 {
			if err := b.createParents(ctx, s, path, b.layout.kind != Node); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, zk.ErrNodeExists) { // layout Node: another member has it
			b.updateLock(election, (*ownLock).reset)
			return nil
		}
		if err != nil {
			if ensemble.IsOpError(err) { // refused, so not created
				b.updateLock(election, (*ownLock).reset)
			}
			return err
		}
		created = results[0].String
		break
	}
	name := created[strings.LastIndexByte(created, '/')+1:]
	if b.layout.kind == Node {
		r, err := s.ReadNode(ctx, ensemble.Data, lock)
		if err != nil {
			return err
		}
		if r.Missing || r.Stat.EphemeralOwner != id {
			// An operator has deleted the node, or the session has changed and the node
			// belongs to the next one, in which it would block everyone. resolveLock finds
			// out which.
			return errSessionEnded
		}
		name = nodeName(r)
	}
	b.updateLock(election, func(own *ownLock) { own.node, own.session = name, id })
	return nil
}

// createParents creates the parents of a path. If container is set and the servers support
// containers, the last parent is one, as with Curator.
func (b *Backend) createParents(ctx context.Context, s *session, path string, container bool) error {
	parts := strings.Split(path[1:], "/")
	at := ""
	for i, part := range parts[:len(parts)-1] {
		at += "/" + part
		_, err := ensemble.Call(ctx, s.Session, func(c *zk.Conn) (string, error) {
			if container && i == len(parts)-2 {
				path, err := c.CreateContainer(at, nil, zk.FlagContainer, b.access.ACL)
				if err == nil || errors.Is(err, zk.ErrNodeExists) || ensemble.IsOpError(err) || errors.Is(err, zk.ErrConnectionClosed) {
					return path, err
				}
			}
			return c.Create(at, nil, zk.FlagPersistent, b.access.ACL)
		})
		if errors.Is(err, zk.ErrNoAuth) { // it may exist, and we may not add to it
			if r, err2 := s.ReadNode(ctx, ensemble.Unique, at); err2 == nil && !r.Missing {
				continue
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("make %s: %w", at, err)
		}
	}
	return nil
}
