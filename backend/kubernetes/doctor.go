package kubernetes

import (
	"context"
	"encoding/json"
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

// Preflight implements [backend.Preflighter]. The API server carries out the requests of a grant as a
// dry run: it checks rights and runs admission, and stores nothing.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	err := b.enter(ctx, "preflight", bids[0].Candidate.Nonce)
	if err == nil {
		err = wrap("preflight", b.fail(b.rehearseFleet(ctx, bids[0].Candidate.Nonce)))
	}
	if err != nil {
		return slices.Repeat([]error{err}, len(bids))
	}
	b.each(len(bids), func(i int) {
		err := b.rehearse(ctx, b.names.election(bids[i].Election))
		errs[i] = wrap(about("preflight", 1, bids[i].Election), b.fail(err))
	})
	return errs
}

// rehearseFleet checks what does not depend on the election: reading, watching, census and member record.
func (b *Backend) rehearseFleet(ctx context.Context, nonce backend.Nonce) error {
	list, err := b.client.List(ctx, meta.ListOptions{LabelSelector: notMembers, Limit: 1})
	if err != nil {
		return err
	}
	stream, err := b.client.Watch(ctx, meta.ListOptions{LabelSelector: notMembers, ResourceVersion: list.ResourceVersion, TimeoutSeconds: new(int64(1))})
	if err != nil {
		return err
	}
	stream.Stop()
	member := b.names.member(nonce)
	for _, name := range []string{b.names.census(), member} {
		if err := b.rehearse(ctx, name); err != nil {
			return err
		}
	}
	err = b.client.Delete(ctx, member, meta.DeleteOptions{DryRun: []string{meta.DryRunAll}})
	if api.IsNotFound(err) {
		return nil
	}
	return err
}

// rehearse reads a Lease, and has the API server make and replace one of that name as a dry run. That
// it is there, or is not, is no error: rights are checked first.
func (b *Backend) rehearse(ctx context.Context, name string) error {
	dry := []string{meta.DryRunAll}
	text := "rehearsal"
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{kindKey: kindElection}, Annotations: map[string]string{touchKey: text}}}
	got, err := b.client.Create(ctx, l, meta.CreateOptions{DryRun: dry})
	if err == nil && got.Annotations[touchKey] != text {
		return errMangled
	}
	if err != nil && !conflict(err) {
		return err
	}
	if _, err = b.client.Get(ctx, name, meta.GetOptions{}); err != nil && !api.IsNotFound(err) {
		return err
	}
	l.UID, l.ResourceVersion = "00000000-0000-0000-0000-000000000000", "1" // of no Lease
	if _, err = b.client.Update(ctx, l, meta.UpdateOptions{DryRun: dry}); api.IsNotFound(err) || conflict(err) {
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
	list := []backend.Diagnostic{clean.Diagnosticf(false, "server", "%s, Kubernetes %s", b.Location(), b.version(ctx))}
	list = append(list, clean.Diagnosticf(false, "namespace", "%q, %s", b.namespace, b.origin))
	began := time.Now()
	all, _, err := b.list(ctx, nil)
	took := time.Since(began)
	if errors.Is(err, backend.ErrDenied) {
		return append(list, b.denied(err)), nil
	}
	if err != nil {
		return nil, wrap("inspect", err)
	}
	err = b.rehearseFleet(ctx, backend.NewNonce())
	if err == nil {
		err = b.rehearse(ctx, b.names.election("x-preflight"))
	}
	if err != nil {
		list = append(list, b.denied(b.fail(err)))
	} else {
		list = append(list, clean.Diagnosticf(false, "rights", "the account may do what a member does, as dry runs have shown"))
	}
	list = append(list, clean.Diagnosticf(took > ttl/10, "latency", "all %d Leases of the namespace were read in %v", len(all), took.Round(time.Millisecond)))
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, _ := b.lastCensus(); b.records && (c == nil || c.Partial) {
		list = append(list, clean.Diagnosticf(true, "census", "the Lease %s was deleted or is damaged: a new election waits once for %v, as if it had been led", b.names.census(), b.greatestTTL()))
	}
	return list, nil
}

func (b *Backend) denied(err error) backend.Diagnostic {
	d := clean.Diagnosticf(true, "rights", "%v\nAn administrator can grant what is needed:\n"+Role, err, b.namespace)
	d.Fatal = true
	return d
}

// version returns the API server's version, if the account may read that.
func (b *Backend) version(ctx context.Context) string {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	text, err := b.rest.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil || json.Unmarshal(text, &v) != nil || v.GitVersion == "" {
		return "(unknown version)"
	}
	return v.GitVersion
}
