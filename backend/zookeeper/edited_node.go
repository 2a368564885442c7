package zookeeper

import (
	"context"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// maxAppointees bounds how many members are read to find one by its address.
const maxMembersRead = 1000

// edited reports whether somebody has written into our node at a fixed path, which is
// how an operator names the next leader there. We write it when it is made, and never
// again.
func (own *ownLock) nodeEdited(data []byte) bool {
	h := own.record.Holder
	return own.node != sealedNode && string(data) != h.ID && string(data) != h.Address
}

// appoint makes of such an edit a nomination that is accepted: we step down in order,
// and those of ours who are not named hold back for a TTL. The node stays until we have;
// it is not handed over, as it belongs to our session.
//
// What could two processes each believe? A member of another program that is named
// leads, by its own rules, from the moment when it has read the node. We do until our
// next renewal is answered, and if none is, until a TTL after the last one, which was
// sent before the edit: one that finds the edit and cannot record it is not granted.
// So for less than a TTL there may be two, and nothing that we do can prevent it, as
// only the editor knows. If one of ours is named there are never two: it needs a
// node of its own.
func (b *Backend) nominateFromEdit(ctx context.Context, s *session, election string, own ownLock, data []byte) (backend.Request, error) {
	w := request{Term: own.term, Kind: backend.Accept, ID: backend.Clean(string(data), backend.MaxID, false)}
	members, err := b.readMembers(ctx, s, "", maxMembersRead)
	if err != nil {
		return backend.Request{}, err
	}
	for _, m := range members {
		if string(data) == m.ID || string(data) == m.Address {
			w.ID, w.Nonce = m.ID, m.Nonce
			break
		}
	}
	next := own.record.clone()
	next.Request = &w
	if own.record.Request == nil || *own.record.Request != w {
		results, _, err := s.write(ctx, &zk.SetDataRequest{Path: b.layout.recordPath(election), Data: next.encode(), Version: own.recordVersion})
		if err != nil {
			return backend.Request{}, err // if the record has changed the next renewal reads it
		}
		if stat := results[0].Stat; stat != nil {
			b.updateLock(election, func(now *ownLock) {
				if now.node == own.node && now.term == own.term {
					now.recordVersion, now.record = stat.Version, next
				}
			})
		}
	}
	return next.lease().Request, nil
}
