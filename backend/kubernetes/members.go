package kubernetes

import (
	"context"
	"encoding/json"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/page"
)

// A memberRecord is what a process's own Lease has as an annotation.
type memberRecord struct {
	ID        string        `json:"id"`
	Nonce     string        `json:"nonce"`
	Address   string        `json:"address,omitempty"`
	Metadata  string        `json:"metadata,omitempty"`
	Stage     string        `json:"stage,omitempty"`
	Elections string        `json:"elections,omitempty"`
	TTL       time.Duration `json:"ttl"`
}

// A sighting is when another member's Lease was first seen in this version.
type sighting struct {
	version string
	since   time.Time
}

// Announce implements [backend.Backend] by one request. Now and then it also deletes the records of
// members that have ended.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(ctx, "announce", m.Nonce); err != nil {
		return err
	}
	if err := b.lockMember(ctx); err != nil {
		return wrap("announce", b.fail(err))
	}
	defer b.unlockMember()
	first := b.member == nil
	if err := b.announce(ctx, m); err != nil {
		return wrap("announce", b.fail(err))
	}
	if first || time.Since(b.swept) > sweepEvery || b.sweeps == 1 && time.Since(b.swept) > 3*m.TTL { // the first sweep has only seen them
		b.swept = time.Now()
		b.sweeps++
		b.members(ctx) // if it fails, another process or a later call does it
	}
	return nil
}

// sweepEvery is how often a process looks for members that have ended.
const sweepEvery = 10 * time.Minute

func (b *Backend) announce(ctx context.Context, m backend.Member) error {
	name, holder := b.names.member(m.Nonce), clean.Text(m.ID, backend.MaxID, false)
	text := string(marshal(&memberRecord{m.ID, string(m.Nonce), m.Address, m.Metadata, m.Stage, m.Elections, m.TTL}))
	var err error
	for range rounds {
		l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{kindKey: kindMember}}}
		if b.member != nil {
			l = b.member.DeepCopy()
		}
		l.Annotations = map[string]string{memberKey: text}
		l.Spec = coordination.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr(int32((m.TTL + time.Second - 1) / time.Second)), RenewTime: &meta.MicroTime{Time: micro(time.Now())},
		}
		var written *coordination.Lease
		if written, err = b.send(ctx, l); err == nil {
			written.ManagedFields = nil
			b.member = written
			return nil
		}
		if !conflict(err) && !api.IsNotFound(err) {
			return err
		}
		switch present, other := b.client.Get(ctx, name, meta.GetOptions{}); {
		case api.IsNotFound(other):
			b.member = nil
		case other != nil:
			return other
		default:
			b.member = present
		}
	}
	return err
}

// Members implements [backend.Backend].
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, "members", ""); err != nil {
		return nil, err
	}
	if err := b.lockMember(ctx); err != nil {
		return nil, wrap("members", b.fail(err))
	}
	defer b.unlockMember()
	list, err := b.members(ctx)
	if err != nil {
		return nil, wrap("members", b.fail(err))
	}
	return page.Cut(list, from, limit, func(m backend.Member) string { return string(m.Nonce) }), nil
}

// members reads the members, and deletes those that this process has seen unchanged for two of their
// TTLs. The caller holds b.announcing.
func (b *Backend) members(ctx context.Context) (list []backend.Member, err error) {
	leases, err := b.client.List(ctx, meta.ListOptions{LabelSelector: kindKey + "=" + kindMember})
	if err != nil {
		return nil, err
	}
	before := b.others
	b.others = make(map[string]sighting, len(leases.Items))
	for i := range leases.Items {
		l := &leases.Items[i]
		var r memberRecord
		text := l.Annotations[memberKey]
		if len(text) > maxRecord || json.Unmarshal([]byte(text), &r) != nil || l.Name != b.names.member(backend.Nonce(r.Nonce)) || clean.Text(r.Nonce, 64, false) != r.Nonce {
			continue // of another fleet, or damaged
		}
		m := clean.Member(backend.Member{
			Candidate: backend.Candidate{ID: r.ID, Nonce: backend.Nonce(r.Nonce), Address: r.Address, Metadata: r.Metadata},
			Stage:     r.Stage, Elections: r.Elections, TTL: min(max(r.TTL, MinTTL), MaxTTL),
		})
		seen := before[l.Name]
		if seen.version != l.ResourceVersion {
			seen = sighting{l.ResourceVersion, time.Now()}
		}
		b.others[l.Name] = seen
		if l.Spec.RenewTime != nil {
			m.Age = max(0, time.Since(l.Spec.RenewTime.Time))
		}
		if m.Age = max(m.Age, time.Since(seen.since)); time.Since(seen.since) > 2*m.TTL && m.Nonce != b.nonce() {
			precondition := meta.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}
			b.client.Delete(ctx, l.Name, meta.DeleteOptions{Preconditions: &precondition}) // if it fails, it is tried again
			continue
		}
		if m.Age <= listedTTLs*m.TTL {
			list = append(list, m)
		}
	}
	return list, nil
}

// listedTTLs is for how many TTLs a member is listed that does not announce itself. It is more than two
// because clocks may differ.
const listedTTLs = 4

// leave deletes this process's own record.
func (b *Backend) leave(ctx context.Context) {
	if b.lockMember(ctx) != nil {
		return
	}
	defer b.unlockMember()
	if l := b.member; l != nil {
		b.client.Delete(ctx, l.Name, meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &l.UID}})
	}
}

// lockMember waits for other calls that use b.member and b.others.
func (b *Backend) lockMember(ctx context.Context) error {
	select {
	case b.announcing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Backend) unlockMember() { <-b.announcing }
