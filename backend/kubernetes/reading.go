package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
	version uint64              // of the Lease; of its absence: a version of the store at which it was missing
	at      time.Time           // when it was received
	record  *record             // nil: there is none, or a damaged one
	damaged bool
	census  *census // of the Lease that has it
}

// errNumbers says that what answers is no API server as Kubernetes describes it.
var errNumbers = fmt.Errorf("%w: the API server has resourceVersions that are no numbers", backend.ErrDenied)

// versionOf returns a resourceVersion as a number; 0 if it is none. Kubernetes compares them as
// numbers, too.
func versionOf(text string) uint64 {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

func formatVersion(v uint64) string { return strconv.FormatUint(v, 10) }

// newObject returns a Lease as it was read.
func newObject(l *coordination.Lease, at time.Time) *object {
	l.ManagedFields = nil // the server keeps them
	o := &object{lease: l, version: versionOf(l.ResourceVersion), at: at}
	if text, ok := l.Annotations[recordKey]; ok {
		o.record = decode(text)
		o.damaged = o.record == nil
	}
	return o
}

// wasLed reports whether a member of this fleet may have led by the Lease, which has this name.
func (o *object) wasLed(n naming, name string) bool {
	if r := o.record; r != nil {
		return r.Epoch != "" && n.election(r.Election) == name
	}
	return o.damaged && strings.HasPrefix(name, n.prefix)
}

// A moment is the beginning of a request: what was known then. An answer that shows less comes from a
// store that went back.
type moment struct {
	highest  uint64
	back     int
	versions map[string]uint64 // of some Leases
}

// now begins a request about Leases, which are followed from now on.
func (b *Backend) now(names ...string) moment {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := moment{highest: b.highest, back: b.back, versions: make(map[string]uint64, len(names))}
	for _, name := range names {
		o := b.objects[name]
		b.objects[name] = o
		if o != nil && o.lease != nil {
			m.versions[name] = o.version
		}
	}
	return m
}

// unknownVersion is Backend.backTo until the listing that follows.
const unknownVersion = math.MaxUint64

// notBefore returns errBack if an answer is older than what was known when its request began. version
// is that of the store as a whole (name ""), or of one Lease. The caller holds b.mu.
func (b *Backend) notBefore(m *moment, name string, version uint64) error {
	known := m.highest
	if name != "" {
		known = m.versions[name]
	}
	switch {
	case b.back != m.back: // noticed meanwhile
		return errBack
	case version == 0:
		return errNumbers
	case version >= known:
		b.highest = max(b.highest, version)
		return nil
	}
	b.back++
	b.backTo, b.highest = unknownVersion, 0
	for name := range b.objects {
		b.objects[name] = nil
	}
	b.stopWatch()
	return errBack
}

// read reads elections and returns their states. It reads a few one by one. Otherwise, or if one of them
// depends on the census, it reads all Leases of the namespace in one request: then the census is from the same moment.
func (b *Backend) read(ctx context.Context, elections []string) ([]state, error) {
	states, errs := make([]state, len(elections)), make([]error, len(elections))
	if len(elections) <= maxRequests/2 {
		b.each(len(elections), func(i int) { states[i], errs[i] = b.get(ctx, elections[i]) })
		if err := cmp.Or(errs...); err != nil || !slices.ContainsFunc(states, state.needsCensus) {
			return states, err
		}
	}
	states, _, err := b.list(ctx, elections)
	return states, err
}

// needsCensus reports whether it depends on the census if the lease is free.
func (s state) needsCensus() bool { return s.record == nil || s.record.Epoch == "" || s.suspect }

// readOne reads one election.
func (b *Backend) readOne(ctx context.Context, election string) (state, error) {
	states, err := b.read(ctx, []string{election})
	if err != nil {
		return state{}, err
	}
	return states[0], nil
}

// get reads one election.
func (b *Backend) get(ctx context.Context, election string) (state, error) {
	name := b.names.election(election)
	if err := b.fetch(ctx, name); err != nil {
		return state{}, b.fail(err)
	}
	s, ok := b.remembered(election)
	if !ok {
		return state{}, errBack // noticed meanwhile
	}
	return s, nil
}

// fetch reads one Lease, or that there is none. The API server answers with what a majority of its store has,
// after the request began.
func (b *Backend) fetch(ctx context.Context, name string) error {
	m := b.now(name)
	l, err := b.client.Get(ctx, name, meta.GetOptions{})
	if err != nil && (!api.IsNotFound(err) || api.HasStatusCause(err, meta.CauseTypeUnexpectedServerResponse)) {
		return err // which may be that of a proxy, which knows no Leases
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.back != m.back { // noticed meanwhile
		return errBack
	}
	o := &object{version: m.highest, at: time.Now()}
	if err == nil {
		o = newObject(l, o.at)
		if err := b.notBefore(&m, name, o.version); err != nil {
			return err
		}
	}
	b.unread = 0
	b.keep(name, o)
	return nil
}

// notMembers selects all Leases but those of members, which change often.
const notMembers = kindKey + "!=" + kindMember

// snapshot reads all Leases but those of members, with the version of the store.
func (b *Backend) snapshot(ctx context.Context, m *moment) (all map[string]*object, version uint64, err error) {
	list, err := b.client.List(ctx, meta.ListOptions{LabelSelector: notMembers})
	if err != nil {
		return nil, 0, b.fail(err)
	}
	now := time.Now()
	all, version = make(map[string]*object, len(list.Items)), versionOf(list.ResourceVersion)

	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.notBefore(m, "", version); err != nil {
		return nil, 0, err
	}
	for i := range list.Items {
		l := &list.Items[i]
		o := newObject(l, now)
		if err := b.notBefore(m, l.Name, o.version); err != nil {
			return nil, 0, err
		}
		all[l.Name] = o
		b.noteRecord(l.Name, o)
	}
	for name, known := range b.objects {
		if known != nil && known.lease == nil && known.version <= version {
			b.objects[name] = nil // it was missing, or was said to be; the listing has what there is
		}
		o := all[name]
		if o == nil {
			o = &object{version: version, at: now}
		}
		b.keep(name, o)
	}
	if b.backTo == unknownVersion {
		b.backTo = version
	}
	b.unread = 0
	return all, version, nil
}

// list reads elections by one request, and returns the version of the store, too.
func (b *Backend) list(ctx context.Context, elections []string) (states []state, version uint64, err error) {
	names := make([]string, len(elections))
	for i, e := range elections {
		names[i] = b.names.election(e)
	}
	m := b.now(names...)
	if _, version, err = b.snapshot(ctx, &m); err != nil {
		return nil, 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.back != m.back { // noticed meanwhile
		return nil, 0, errBack
	}
	for i, e := range elections {
		states = append(states, b.classify(e, b.objects[names[i]]))
	}
	return states, version, nil
}

// keep remembers an object, unless a newer one is known. The caller holds b.mu.
func (b *Backend) keep(name string, o *object) {
	if old := b.objects[name]; old != nil && old.version > o.version {
		return
	}
	b.objects[name] = o
	b.noteRecord(name, o)
	if name == b.names.census() && o.lease != nil {
		o.census = newCensus(o.lease)
		b.longest = max(b.longest, o.census.MaxTTL) // the census may be deleted later
		b.records = b.records || o.census.Partial || len(o.census.Made) > 0
	}
}

// noteRecord remembers what a Lease says of the fleet. The caller holds b.mu.
func (b *Backend) noteRecord(name string, o *object) {
	if !o.wasLed(b.names, name) {
		return
	}
	b.records = true
	term := uint64(0)
	if r := o.record; r != nil {
		b.longest = max(b.longest, time.Duration(r.TTL))
		if r.Term <= backend.MaxTerm { // a greater one was forged
			term = r.Term
		}
	}
	b.terms[name] = max(b.terms[name], term)
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
	m := b.now()
	all, _, err := b.snapshot(ctx, &m)
	if err != nil {
		return nil, wrap("list", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, o := range all {
		r := o.record
		if r == nil || r.Term == 0 || backend.CheckName(r.Election) != nil || b.names.election(r.Election) != name {
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
	what := about("observe", len(seen), seen[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return nil, err
	}
	if changed, ok := b.observeRemembered(seen); ok {
		return changed, nil
	}
	states, err := b.read(ctx, electionsOf(seen))
	if err != nil {
		return nil, wrap(what, err)
	}
	for i := range states {
		if seen[i].Version == "" || states[i].Differs(seen[i]) {
			changed = append(changed, states[i].Lease)
		}
	}
	return changed, nil
}

func electionsOf(leases []backend.Lease) []string {
	names := make([]string, len(leases))
	for i := range leases {
		names[i] = leases[i].Election
	}
	return names
}
