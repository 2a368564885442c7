package kubernetes

import (
	"context"
	"slices"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/page"
)

// Announce implements [backend.Backend] by one request. The first also deletes records of who is gone.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(ctx, "announce", m.Nonce); err != nil {
		return err
	}
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{
		Name: b.names.member(m.Nonce), Labels: map[string]string{kindKey: kindMember},
		Annotations: map[string]string{memberKey: lease.Encode(&lease.Session{
			ID: m.ID, Nonce: string(m.Nonce), Address: m.Address, Metadata: m.Metadata, Stage: m.Stage,
			Elections: m.Elections, TTL: lease.Span(m.TTL), At: time.Now().UTC(),
		})},
	}}
	b.mu.Lock()
	last := b.member
	b.mu.Unlock()
	if last != nil {
		l.UID, l.ResourceVersion = last.UID, last.ResourceVersion
	}

	o, err := b.send(ctx, l)
	if conflict(err) || api.IsNotFound(err) { // it was deleted, or made by a request whose answer was lost
		b.client.Delete(ctx, l.Name, meta.DeleteOptions{})
		l.UID, l.ResourceVersion = "", ""
		o, err = b.send(ctx, l)
	}
	if last == nil { // also if a quota is full, perhaps of them
		b.cleanUp(ctx) // if it fails, the next process does it
	}
	if err != nil {
		return b.wrap("announce", err)
	}
	b.mu.Lock()
	b.member = o.lease
	b.mu.Unlock()
	return nil
}

// goneAfter is how long a member has not announced itself, by its own clock, if it is taken for gone. One
// that was only cut off makes its record again.
const goneAfter = time.Hour

// cleanUp deletes the records of members that are gone.
func (b *Backend) cleanUp(ctx context.Context) {
	all, _ := b.members(ctx)
	for _, m := range all {
		if m.Age > goneAfter {
			b.client.Delete(ctx, b.names.member(m.Nonce), meta.DeleteOptions{})
		}
	}
}

// listedTTLs is for how many TTLs a member is listed that does not announce itself. It is more than two
// because clocks may differ.
const listedTTLs = 4

func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, "members", ""); err != nil {
		return nil, err
	}
	all, err := b.members(ctx)
	if err != nil {
		return nil, b.wrap("members", err)
	}
	all = slices.DeleteFunc(all, func(m backend.Member) bool { return m.Age > listedTTLs*m.TTL })
	return page.Cut(all, from, limit, func(m backend.Member) string { return string(m.Nonce) }), nil
}

// members returns the members of this fleet, however long ago they have announced themselves.
func (b *Backend) members(ctx context.Context) (all []backend.Member, err error) {
	list, err := b.client.List(ctx, meta.ListOptions{LabelSelector: kindKey + "=" + kindMember})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		l := &list.Items[i]
		nonce, ours := strings.CutPrefix(l.Name, b.names.member(""))
		s, ok := lease.Decode(lease.Sessions, []byte(l.Annotations[memberKey])).(*lease.Session)
		if !ours || !ok {
			continue
		}
		all = append(all, clean.Member(backend.Member{
			Candidate: backend.Candidate{
				ID: s.ID, Nonce: backend.Nonce(nonce), Address: s.Address, Metadata: s.Metadata,
			},
			Stage: s.Stage, Elections: s.Elections,
			TTL: min(max(time.Duration(s.TTL), MinTTL), MaxTTL),
			Age: b.ages.Of(nonce, s.At, max(0, time.Since(s.At))),
		}))
	}
	return all, nil
}
