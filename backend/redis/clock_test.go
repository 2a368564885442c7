package redis

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A server whose clock was wrong when it started has run for a negative time when it is set right, and for hours
// when it was behind.
func TestAnyClockOfTheServerElectsALeader(t *testing.T) {
	t.Parallel()
	for what, off := range map[string]time.Duration{"2 h ahead at the start": 2 * time.Hour, "2 h behind": -2 * time.Hour} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := testbed.StartRedis(t, testbed.RedisOptions{Clock: true, Offset: off})
			server.Step(t, -off)
			o := options(server)
			o.MaxTTL = 2 * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := join(t, "a", time.Second, o).Campaign(ctx); err != nil {
				t.Errorf("its clock is right again: %v", err)
			}
		})
	}
}

// Somebody has edited the count of changes.
func TestAnyCountOfChangesElectsALeader(t *testing.T) {
	t.Parallel()
	server := testbed.SharedRedis(t)
	for _, number := range []string{"-7194", "", "nan", "-inf", "inf", "1e300", "9223372036854775807", "x"} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			o := options(server)
			o.MaxTTL = 2 * time.Second
			d := open(t, o)
			testbed.Read(t, d)
			server.Do(t, "HSET", d.keys()[0], "number", number)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			e := join(t, "a", time.Second, o)
			lead, err := e.Campaign(ctx)
			if err != nil {
				t.Fatal(err)
			}
			testbed.Eventually(t, patience, "its lease is renewed", func() error {
				if e.Leadership() == nil || e.Leadership().Term != lead.Term {
					t.Fatalf("it no longer leads: %v", e.Current())
				}
				return nil
			})
		})
	}
}

// A server that has worked for longer than the greatest TTL has not just lost a lease.
func TestAServerThatHasWorkedForLongElectsAtOnce(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.RedisOptions{})
	o := options(server)
	o.MaxTTL = time.Second
	awaitWork(t, server, 5*time.Second)
	if v := testbed.Read(t, open(t, o), metaKey); v.Items[0].Version != "" {
		t.Errorf("the store may have lost a lease: %s", v.Items[0].Version)
	}
}
