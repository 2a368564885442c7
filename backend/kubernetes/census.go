package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/internal/client"
)

// A census is what one Lease of a fleet says: which elections were ever led, and the greatest TTL that was
// ever granted. An election that is not in it was never led. One that is in it and has no Lease was deleted.
// It must not be modified.
type census struct {
	MaxTTL time.Duration    `json:"max_ttl"` // in nanoseconds
	Made   map[string]int64 `json:"made"`    // by digest of the Lease's name: how often it was made

	// Partial says that elections may be missing in Made: an earlier census was deleted.
	Partial bool `json:"partial,omitempty"`
}

// madeKey is the key of a Lease in census.Made. Two Leases with the same key make no harm: the second
// one is watched before it is led for the first time.
func madeKey(name string) string { return digest(name)[:8] }

// newCensus returns the census in a Lease. A damaged one counts as partial.
func newCensus(l *coordination.Lease) *census {
	c := &census{}
	if err := json.Unmarshal([]byte(l.Annotations[censusKey]), c); err != nil || c.MaxTTL <= 0 {
		c = &census{Partial: true, MaxTTL: MaxTTL}
	}
	c.MaxTTL = min(c.MaxTTL, MaxTTL)
	return c
}

// lastCensus returns the census as it was read last; nil: there was none. The caller holds b.mu.
func (b *Backend) lastCensus() *census {
	if o := b.objects[b.names.census()]; o != nil {
		return o.census
	}
	return nil
}

// wasMade reports whether an election without a Lease may have been led. The caller holds b.mu.
func (b *Backend) wasMade(name string) bool {
	_, led := b.terms[name]
	switch c := b.lastCensus(); {
	case led, !b.back.IsZero():
		return true
	case c == nil:
		return b.led() // the census was deleted: nobody knows what else was
	default:
		return c.Partial || c.Made[madeKey(name)] > 0
	}
}

// led reports whether anything may have been led, or the census was not read. The caller holds b.mu.
func (b *Backend) led() bool {
	return len(b.terms) > 0 || b.longest > 0 || b.objects[b.names.census()] == nil
}

// greatestTTL returns the greatest TTL that may have been granted. The caller holds b.mu.
func (b *Backend) greatestTTL() time.Duration {
	if b.lastCensus() == nil && b.led() {
		return MaxTTL
	}
	return max(b.longest, MinTTL)
}

// errLed says that an election that had no Lease was led meanwhile.
var errLed = errors.New("it was led meanwhile")

// writeCensus writes the census before an election is led that it may not have (""; none), or with a TTL that
// it does not have. missing is the version of the lease if there was no Lease: if it has changed, the error
// is errLed.
func (b *Backend) writeCensus(ctx context.Context, election, missing string, ttl time.Duration) error {
	for try := 1; ; try++ {
		b.mu.Lock()
		now := state{name: b.names.election(election)}
		now.classifyMissing(b, election)
		l := b.nextCensus(election, ttl)
		b.mu.Unlock()
		if missing != "" && now.Version != missing {
			return errLed
		}
		if l == nil {
			return nil
		}
		if _, err := b.send(ctx, l); !conflict(err) {
			return err
		}

		// Many processes may write it.
		if !client.Pause(ctx, rand.N(time.Duration(min(try, 10))*10*time.Millisecond)) {
			return ctx.Err()
		}
		if err := b.get(ctx, b.names.census()); err != nil {
			return err
		}
	}
}

// nextCensus returns the census as it is written before an election is led ("": one that it has), or nil if
// it says enough. The caller holds b.mu.
func (b *Backend) nextCensus(election string, ttl time.Duration) *coordination.Lease {
	c := b.lastCensus()
	if election == "" && c != nil && c.MaxTTL >= ttl {
		return nil
	}
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: b.names.census()}}
	var next census
	if c != nil {
		l, next = b.objects[l.Name].lease.DeepCopy(), *c
	} else if b.led() { // it was deleted
		next.Partial, next.MaxTTL = true, MaxTTL
	}
	next.MaxTTL = max(next.MaxTTL, ttl, b.longest)
	if next.Made = maps.Clone(next.Made); next.Made == nil {
		next.Made = map[string]int64{}
	}
	if election != "" {
		next.Made[madeKey(b.names.election(election))]++
	}
	text, _ := json.Marshal(&next) // numbers cannot fail
	meta.SetMetaDataAnnotation(&l.ObjectMeta, censusKey, string(text))
	return l
}
