package kubernetes

import (
	"context"
	"errors"
	"slices"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// Role has the rights that a member needs, with %s for the namespace. It must be bound to the member's
// service account.
const Role = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: election, namespace: %s}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, delete]
`

// Preflight implements [backend.Preflighter]: see rehearse.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	nonce := bids[0].Candidate.Nonce
	err := b.enter(ctx, "preflight", nonce)
	if err == nil {
		err = b.wrap("preflight", b.rehearse(ctx, b.names.member(nonce)))
	}
	return slices.Repeat([]error{err}, len(bids))
}

// rehearse makes each kind of request of a member, with a Lease of this name, and those that write as dry runs: the API
// server checks rights and runs admission, and stores nothing. That the Lease is there, or is not, is no error, since
// rights are checked first.
func (b *Backend) rehearse(ctx context.Context, name string) error {
	list, err := b.client.List(ctx, meta.ListOptions{LabelSelector: notMembers, Limit: 1})
	if err != nil {
		return err
	}
	stream, err := b.client.Watch(ctx, meta.ListOptions{
		LabelSelector: notMembers, ResourceVersion: list.ResourceVersion, TimeoutSeconds: new(int64(1)),
	})
	if err != nil {
		return err
	}
	stream.Stop()

	dry := []string{meta.DryRunAll}
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name}}
	touch(l)
	made, err := b.client.Create(ctx, l, meta.CreateOptions{DryRun: dry})
	if err == nil && made.Annotations[touchKey] != l.Annotations[touchKey] {
		return errMangled
	}
	if err != nil && !conflict(err) {
		return err
	}
	if _, err = b.client.Get(ctx, name, meta.GetOptions{}); err != nil && !api.IsNotFound(err) {
		return err
	}
	l.UID, l.ResourceVersion = "00000000-0000-0000-0000-000000000000", "1" // of no Lease
	if _, err = b.client.Update(ctx, l, meta.UpdateOptions{DryRun: dry}); err != nil && !api.IsNotFound(err) && !conflict(err) {
		return err
	}
	if err = b.client.Delete(ctx, name, meta.DeleteOptions{DryRun: dry}); api.IsNotFound(err) {
		return nil
	}
	return err
}

// Inspect implements [backend.Inspector]. It checks the rights of this account by dry runs, and reads
// all Leases of the namespace.
func (b *Backend) Inspect(ctx context.Context, ttl, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.enter(ctx, "inspect", ""); err != nil {
		return nil, err
	}
	list := []backend.Diagnostic{
		clean.Diagnosticf(false, "server", "%s", b.Location()),
		clean.Diagnosticf(false, "namespace", "%q, %s", b.namespace, b.origin),
	}

	err := b.fail(b.rehearse(ctx, b.names.member(backend.NewNonce())))
	var all map[string]*object
	began := time.Now()
	if err == nil {
		all, _, err = b.list(ctx, nil)
	}
	took := time.Since(began)
	if errors.Is(err, backend.ErrDenied) {
		d := clean.Diagnosticf(true, "rights", "%v\nAn administrator can grant what is needed:\n"+Role, err, b.namespace)
		d.Fatal = true
		return append(list, d), nil
	}
	if err != nil {
		return nil, b.wrap("inspect", err)
	}

	list = append(list,
		clean.Diagnosticf(false, "rights", "the account may do what a member does, as dry runs have shown"),
		clean.Diagnosticf(took > ttl/10, "latency", "all %d Leases of the namespace were read in %v", len(all), took.Round(time.Millisecond)))
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, _ := b.lastCensus(); b.led() && (c == nil || c.Partial) {
		list = append(list, clean.Diagnosticf(true, "census", "the Lease %s was deleted or is damaged: a new election waits once for %v, as if it had been led", b.names.census(), b.greatestTTL()))
	}
	return list, nil
}
