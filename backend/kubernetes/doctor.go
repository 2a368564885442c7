package kubernetes

import (
	"context"
	"slices"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	nonce := bids[0].Candidate.Nonce
	err := b.enter(ctx, "preflight", nonce)
	if err == nil {
		err = b.wrap("preflight", b.rehearse(ctx, b.names.member(nonce)))
	}
	return slices.Repeat([]error{err}, len(bids))
}

// rehearse makes each kind of request of a member, with a Lease of this name, and those that write as dry
// runs: the API server checks rights and runs admission, and stores nothing. Rights come before the Lease.
func (b *Backend) rehearse(ctx context.Context, name string) error {
	dry := []string{meta.DryRunAll}
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name}}
	if _, err := b.client.Create(ctx, l, meta.CreateOptions{DryRun: dry}); err != nil && !conflict(err) {
		return err
	}
	l.UID, l.ResourceVersion = "00000000-0000-0000-0000-000000000000", "1" // of no Lease
	_, update := b.client.Update(ctx, l, meta.UpdateOptions{DryRun: dry})
	remove := b.client.Delete(ctx, name, meta.DeleteOptions{DryRun: dry})
	_, get := b.client.Get(ctx, name, meta.GetOptions{})
	_, list := b.client.List(ctx, meta.ListOptions{LabelSelector: notMembers, Limit: 1})
	stream, watch := b.client.Watch(ctx, meta.ListOptions{LabelSelector: notMembers})
	if watch == nil {
		stream.Stop()
	}
	for _, err := range []error{update, remove, get, list, watch} {
		if err != nil && !api.IsNotFound(err) && !conflict(err) {
			return err
		}
	}
	return nil
}

func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.enter(ctx, "inspect", ""); err != nil {
		return nil, err
	}
	d := clean.Diagnosticf(false, "rights", "the account may do what a member does, in %s", b.Location())
	if err := b.rehearse(ctx, b.names.member(backend.NewNonce())); err != nil {
		d = clean.Diagnosticf(true, "rights", "%v", b.wrap("inspect", err))
		d.Fatal = true
	}
	return []backend.Diagnostic{d}, nil
}
