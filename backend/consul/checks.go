package consul

import (
	"context"
	"time"

	"github.com/hashicorp/consul/api"
)

// A checkedSession is the session of Consul that depends on Options.Checks and ServiceChecks. It
// locks the key of the process's session item. When a check fails, Consul ends it and deletes that
// key, and no other can be made until all checks pass. Without checks there is none.
type checkedSession struct {
	mutex   chan struct{} // held while the following is used
	id      string        // "": none
	ttl     time.Duration
	renewed time.Time
}

// minSessionTTL and maxSessionTTL are what Consul's servers allow by default.
const (
	minSessionTTL = 10 * time.Second
	maxSessionTTL = 24 * time.Hour
)

// checkedFor returns the id of the session for a write of the item, and renews it when half its TTL has
// passed. If the item is to be made, the session is new: Consul may not have told yet that the last
// one has ended. lasts is for how long the item shall stay when it is written no more.
func (d *driver) checkedFor(ctx context.Context, lasts time.Duration, made bool) (id string, err error) {
	s := &d.checked
	select {
	case s.mutex <- struct{}{}:
		defer func() { <-s.mutex }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	sent := time.Now()
	switch {
	case made:
		s.ttl = min(max(minSessionTTL, lasts), maxSessionTTL)
		s.id, err = d.CreateSession(ctx, &api.SessionEntry{
			Name: "election", Behavior: api.SessionBehaviorDelete, TTL: s.ttl.String(), LockDelay: time.Millisecond,
		})
		s.renewed = sent
	case s.id != "" && time.Since(s.renewed) > s.ttl/2:
		var ended bool
		if ended, err = d.RenewSession(ctx, s.id); err == nil && !ended {
			s.renewed = sent
		}
	}
	return s.id, err
}
