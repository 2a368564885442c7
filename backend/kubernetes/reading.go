package kubernetes

import (
	"context"
	"math"
	"strconv"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/page"
)

// An object is a Lease as it was read last, or its absence.
type object struct {
	lease   *coordination.Lease // nil: there was none
	version uint64              // of the Lease; of its absence: one of the store when it was missing
	at      time.Time           // when it was received
	record  *record             // nil: there is none
	census  *census             // of the Lease that has it
}

// versionOf returns a resourceVersion as a number; 0 if it is none, which no API server has. Kubernetes
// compares them as numbers, too.
func versionOf(text string) uint64 {
	v, _ := strconv.ParseUint(text, 10, 64)
	return v
}

// newObject returns a Lease as it was read.
func newObject(l *coordination.Lease, at time.Time) *object {
	l.ManagedFields = nil // the server keeps them
	return &object{lease: l, version: versionOf(l.ResourceVersion), at: at, record: recordOf(l)}
}

// follow begins a request about Leases, which are kept from now on, and returns when it began.
func (b *Backend) follow(names ...string) (began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		o := b.objects[name]
		b.objects[name] = o
	}
	return time.Now()
}

// unknownVersion is Backend.backTo until the listing that follows.
const unknownVersion = math.MaxUint64

// learn keeps the Leases that an answer shows. It returns errBack if one of them is older than it was when
// the request began: the answer comes from a store that went back. The caller holds b.mu.
func (b *Backend) learn(began time.Time, shown map[string]*object) error {
	if !began.After(b.back) { // noticed meanwhile
		return errBack
	}
	for name, o := range shown {
		known := b.objects[name]
		if known != nil && known.lease != nil && known.version > o.version && !known.at.After(began) {
			b.forgetAll()
			return errBack
		}
	}

	for name, o := range shown {
		b.keep(name, o)
	}
	return nil
}

// forgetAll notes that the store went back. The caller holds b.mu.
func (b *Backend) forgetAll() {
	b.back = time.Now()
	b.backTo = unknownVersion
	for name := range b.objects {
		b.objects[name] = nil
	}
	b.stopWatch()
}

// read reads elections, named by their leases, and returns their states. One of them is read by itself,
// unless it depends on the census whether it is free: a listing has both as they were at the same moment.
func (b *Backend) read(ctx context.Context, seen ...backend.Lease) ([]state, error) {
	names := b.namesOf(seen)
	if len(seen) == 1 {
		if err := b.get(ctx, names[0]); err != nil {
			return nil, err
		}
		if s, ok := b.remembered(seen[0].Election); ok && (s.lease == nil || s.record != nil && !s.suspect) {
			return []state{s}, nil
		}
	}
	if _, _, err := b.list(ctx, names); err != nil {
		return nil, err
	}
	states := make([]state, len(seen))
	for i := range seen {
		s, ok := b.remembered(seen[i].Election)
		if !ok {
			return nil, errBack // noticed meanwhile
		}
		states[i] = s
	}
	return states, nil
}

// get reads one Lease. The API server answers with what a majority of its store has, after the request
// began. That there is none is not believed: it may be said by a proxy, which knows no Leases. A listing
// shows it, and the census.
func (b *Backend) get(ctx context.Context, name string) error {
	began := b.follow(name)
	l, err := b.client.Get(ctx, name, meta.GetOptions{})
	if api.IsNotFound(err) {
		_, _, err = b.list(ctx, []string{name})
		return err
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.learn(began, map[string]*object{name: newObject(l, time.Now())})
}

// notMembers selects all Leases but those of members, which change often.
const notMembers = kindKey + "!=" + kindMember

// list reads all Leases but those of members, with the version of the store. It keeps those that are
// followed, present or missing; those with names are, from now on.
func (b *Backend) list(ctx context.Context, names []string) (map[string]*object, uint64, error) {
	began := b.follow(names...)
	list, err := b.client.List(ctx, meta.ListOptions{LabelSelector: notMembers})
	if err != nil {
		return nil, 0, err
	}
	at := time.Now()
	version, all := versionOf(list.ResourceVersion), make(map[string]*object, len(list.Items))
	for i := range list.Items {
		all[list.Items[i].Name] = newObject(&list.Items[i], at)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.objects {
		if all[name] == nil {
			all[name] = &object{version: version, at: at}
		}
	}
	if err := b.learn(began, all); err != nil {
		return nil, 0, err
	}
	if b.backTo == unknownVersion {
		b.backTo = version
	}
	return all, version, nil
}

// keep remembers what an object says of the fleet, and the object if it is followed, unless a newer one is
// known. The caller holds b.mu.
func (b *Backend) keep(name string, o *object) {
	r := o.record
	if r != nil && r.Epoch != "" && r.Term <= backend.MaxTerm && b.names.election(r.Election) == name {
		b.longest = max(b.longest, time.Duration(r.TTL))
		b.terms[name] = max(b.terms[name], r.Term)
	}
	old, followed := b.objects[name]
	if !followed || old != nil && old.version > o.version {
		return
	}
	b.objects[name] = o
	if name == b.names.census() && o.lease != nil {
		o.census = newCensus(o.lease)
		b.longest = max(b.longest, o.census.MaxTTL) // the census may be deleted later
	}
}

// remembered returns an election's state as it was read last. ok is false if it must be read.
func (b *Backend) remembered(election string) (s state, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.objects[b.names.election(election)]
	if o == nil {
		return s, false
	}
	return b.classify(election, o), true
}

// List implements [backend.Backend]: elections that members of this module have led.
func (b *Backend) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	if err := b.enter(ctx, "list", ""); err != nil {
		return nil, err
	}
	all, _, err := b.list(ctx, nil)
	if err != nil {
		return nil, b.wrap("list", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, o := range all {
		r := o.record
		if r == nil || r.Term == 0 || b.names.election(r.Election) != name ||
			backend.CheckName(r.Election) != nil {
			continue
		}
		s := b.classify(r.Election, o)
		record := backend.Record{Lease: s.Lease, History: r.History}
		if t := o.lease.Spec.AcquireTime; t != nil && !s.Vacant() {
			record.Elected = clean.Time(t.Time)
		}
		list = append(list, record)
	}
	return page.Cut(list, from, limit, func(r backend.Record) string { return r.Election }), nil
}

// Observe implements [backend.Backend] with a reading, unless the watch has just told of a change.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	what := backend.Describe("observe", len(seen), seen[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return nil, err
	}
	if changed := b.changesTold(seen); changed != nil {
		return changed, nil
	}
	states, err := b.read(ctx, seen...)
	if err != nil {
		return nil, b.wrap(what, err)
	}
	for i := range states {
		if seen[i].Version == "" || states[i].Differs(seen[i]) {
			changed = append(changed, states[i].Lease)
		}
	}
	return changed, nil
}

// namesOf returns the names of the Leases of elections.
func (b *Backend) namesOf(seen []backend.Lease) []string {
	names := make([]string, len(seen))
	for i := range seen {
		names[i] = b.names.election(seen[i].Election)
	}
	return names
}
