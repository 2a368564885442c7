package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// changesMeta reports whether a grant with this TTL must change the meta item, because that is missing, of
// another epoch, or has a shorter TTL as the greatest one.
func (b *Backend) changesMeta(v *view, ttl time.Duration) bool {
	if v.metaRead {
		m, ok := v.meta.Value.(*Meta)
		return !ok || m.Layout == 0 || m.Epoch != v.epoch || time.Duration(m.MaxTTL) < ttl
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cache.maxTTL < ttl
}

// readMeta reads the meta item.
func (b *Backend) readMeta(ctx context.Context, v *view) error {
	got, err := b.driver.Read(ctx, []Key{{Metas, ""}})
	if err != nil {
		return err
	}
	if got.source() != v.source {
		return ErrEpoch
	}
	v.note(&got)
	return v.checkLayout()
}

// checkLayout refuses a store that a newer program has written.
func (v *view) checkLayout() error {
	if m, ok := v.meta.Value.(*Meta); ok && m.Layout > Layout {
		return fmt.Errorf("%w: the store has layout %d, this program %d", backend.ErrDenied, m.Layout, Layout)
	}
	return nil
}

// grantWithMeta is grantChange, and counts the records that are made. A process that is granted an
// election without a record has watched for the greatest TTL if any record was missing. So all
// records that were deleted before are accounted for.
func (b *Backend) grantWithMeta(v *view, part []granting) Change {
	c := grantChange(part)
	m := b.presentMeta(v)
	m.Layout, m.Epoch, m.Made = Layout, v.epoch, max(m.Made, v.records)
	made := int64(0)
	for _, g := range part {
		m.MaxTTL = max(m.MaxTTL, g.record.TTL)
		if g.state.missing {
			made++
		}
	}
	if made > 0 {
		m.Deleted += max(0, m.Made-v.records)
		m.Made = v.records + made
	}
	c.Put = append(c.Put, Put{v.meta, &m})
	return c
}

// presentMeta returns the meta item as it was read. If it is not there, or damaged, it returns one
// that says no more than this process knows.
func (b *Backend) presentMeta(v *view) Meta {
	if old, ok := v.meta.Value.(*Meta); ok {
		return *old
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := Meta{Layout: Layout, Made: v.records, MaxTTL: Span(b.longest(v)), Epoch: v.epoch}
	if v.records > 0 || b.replaced > 0 {
		m.Deleted = 1 // perhaps
	}
	return m
}

// noteMeta keeps the meta item as this process has written it with grants.
func (v *view) noteMeta(it Item, written Value, part []granting) {
	it.Value = written
	v.meta = it
	for _, g := range part {
		if g.state.missing {
			v.records++
		}
	}
}
