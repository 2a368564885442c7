package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A census is the one Lease of a fleet that says which elections were ever led, and the greatest TTL
// that was ever granted. An election that is not in it was never led. One that is in it and has no
// Lease was deleted. It must not be modified.
type census struct {
	lease *coordination.Lease // it has the other fields as an annotation

	Layout int              `json:"layout"`
	MaxTTL time.Duration    `json:"max_ttl"` // in nanoseconds
	Made   map[string]int64 `json:"made"`    // by digest of the Lease's name: how often it was made

	// Partial says that elections may be missing in Made: an earlier census was deleted.
	Partial bool `json:"partial,omitempty"`
}

const layout = 1

// madeKey is the key of a Lease in census.Made. Two Leases with the same key make no harm: the second
// one is watched before it is led for the first time.
func madeKey(name string) string { return digest(name)[:8] }

// newCensus returns the census in a Lease. A damaged one counts as partial.
func newCensus(l *coordination.Lease) *census {
	l.ManagedFields = nil
	c := &census{lease: l}
	if err := json.Unmarshal([]byte(l.Annotations[censusKey]), c); err != nil || c.Layout == 0 || c.MaxTTL <= 0 {
		c = &census{lease: l, Layout: max(c.Layout, layout), Partial: true, MaxTTL: MaxTTL}
	}
	c.MaxTTL = min(c.MaxTTL, MaxTTL)
	return c
}

// keepCensus remembers the census as a reading has shown it; nil: there is none. The caller holds b.mu.
func (b *Backend) keepCensus(c *census, version uint64) {
	if c != nil {
		version = versionOf(c.lease.ResourceVersion)
		b.longest = max(b.longest, c.MaxTTL) // the census may be deleted later
		b.records = b.records || c.Partial || len(c.Made) > 0
	}
	if b.census != nil && versionOf(b.census.lease.ResourceVersion) > version {
		return
	}
	b.census, b.censusRead = c, true
}

// wasMade reports whether an election without a Lease may have been led. The caller holds b.mu.
func (b *Backend) wasMade(name string) bool {
	_, read := b.terms[name]
	switch c := b.census; {
	case read, b.back > 0, !b.censusRead:
		return true
	case c == nil:
		return b.records // the census was deleted: nobody knows what else was
	default:
		return c.Partial || c.Made[madeKey(name)] > 0
	}
}

// greatestTTL returns the greatest TTL that may have been granted. The caller holds b.mu.
func (b *Backend) greatestTTL() time.Duration {
	if b.census == nil && (b.records || !b.censusRead) {
		return MaxTTL
	}
	return max(b.longest, MinTTL)
}

// errLed says that an election that had no Lease was led meanwhile.
var errLed = errors.New("it was led meanwhile")

// writeCensus writes the census before an election is led that it may not have (""; none), or with a TTL that it does
// not have. missing is the version of the lease if there was no Lease: if that has changed since, the error is errLed.
func (b *Backend) writeCensus(ctx context.Context, election, missing string, ttl time.Duration) error {
	b.mu.Lock()
	stale := !b.censusRead
	b.mu.Unlock()
	for try := 0; ; try++ {
		if stale {
			if err := pause(ctx, try); err != nil {
				return err
			}
			if err := b.readCensus(ctx); err != nil {
				return err
			}
		}

		b.mu.Lock()
		c := b.census
		now := state{name: b.names.election(election)}
		now.classifyMissing(b, election)
		l := b.nextCensus(c, election, ttl)
		b.mu.Unlock()
		switch {
		case missing != "" && now.Version != missing:
			return errLed
		case election == "" && c != nil && c.MaxTTL >= ttl:
			return nil
		}

		written, err := b.send(ctx, l)
		if err == nil {
			b.mu.Lock()
			b.keepCensus(newCensus(written), 0)
			b.mu.Unlock()
			return nil
		}
		if stale = true; !conflict(err) {
			return err
		}
	}
}

// pause waits a moment before another try to write the census: many processes may.
func pause(ctx context.Context, try int) error {
	if try == 0 {
		return nil
	}
	select {
	case <-time.After(time.Duration(rand.Int64N(int64(min(try, 10)) * int64(10*time.Millisecond)))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readCensus reads the census alone.
func (b *Backend) readCensus(ctx context.Context) (err error) {
	m := b.now()
	l, err := b.client.Get(ctx, b.names.census(), meta.GetOptions{})
	if err != nil && !api.IsNotFound(err) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.back != m.back {
		return errBack
	}
	if b.censusRead = true; err != nil {
		b.census = nil
		return nil
	}
	b.keepCensus(newCensus(l), 0)
	return nil
}

// nextCensus returns the census as it is written before an election is led ("": none). The caller holds b.mu.
func (b *Backend) nextCensus(c *census, election string, ttl time.Duration) *coordination.Lease {
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: b.names.census(), Labels: map[string]string{kindKey: kindCensus}}}
	next := census{Layout: layout}
	if c != nil {
		l, next = c.lease.DeepCopy(), *c
	} else if b.records { // it was deleted
		next.Partial, next.MaxTTL = true, MaxTTL
	}
	next.MaxTTL = max(next.MaxTTL, ttl, b.longest)
	if next.Made = maps.Clone(next.Made); next.Made == nil {
		next.Made = map[string]int64{}
	}
	if election != "" {
		next.Made[madeKey(b.names.election(election))]++
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[censusKey] = string(marshal(&next))
	return l
}
