package curator

import (
	"context"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-zookeeper/zk"
)

// maxMembersRead limits how many members are read to find one by its address.
const maxMembersRead = 1000

// nodeEdited reports whether an operator has written into our node at a fixed path, in
// order to name the next leader. We write the node only when we create it.
func (own *ownLock) nodeEdited(data []byte) bool {
	h := own.record.Holder
	return own.node != sealedNode && string(data) != h.ID && string(data) != h.Address
}

// nominateFromEdit turns such an edit into an accepted nomination: we step down in order,
// and our members that are not named hold back for a TTL. What two processes may believe
// meanwhile: docs/design/curator.md, "An edited lock node".
func (b *Backend) nominateFromEdit(ctx context.Context, s *session, election string, own ownLock, data []byte) (backend.Request, error) {
	w := request{Term: own.term, Kind: backend.Accept, ID: clean.Text(string(data), backend.MaxID, false)}
	members, err := b.readMembers(ctx, s, "", maxMembersRead)
	if err != nil {
		return backend.Request{}, err
	}
	for _, m := range members {
		if string(data) == m.ID || string(data) == m.Address {
			w.ID, w.Nonce = m.ID, string(m.Nonce)
			break
		}
	}
	next := own.record.clone()
	next.Request = &w
	if own.record.Request == nil || *own.record.Request != w {
		results, _, err := s.write(ctx, &zk.SetDataRequest{Path: b.layout.recordPath(election), Data: next.encode(), Version: own.recordVersion})
		if err != nil {
			return backend.Request{}, err // if the record has changed, the next renewal reads it
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
