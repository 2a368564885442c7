package migration_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
)

type slow struct {
	Inner
	by time.Duration
}

func (s slow) Release(ctx context.Context, held []backend.Held) error {
	time.Sleep(s.by)
	return s.Inner.Release(ctx, held)
}

// However far the two releases are apart, the follower follows until the second is done, and leads then.
func TestAHalfThatIsReleasedLateCostsNoReading(t *testing.T) {
	for _, by := range [][2]time.Duration{{0, 300 * time.Millisecond}, {300 * time.Millisecond, 0}, {0, 20 * time.Millisecond}, {20 * time.Millisecond, 0}} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines strings.Builder
				logger := slog.New(slog.NewTextHandler(&lines, nil)) // one, since a handler locks its writer
				from, to := memory.New(), memory.New()
				start := func(id string) (*election.Election, func()) {
					b := road(t, migration.Options{
						From: slow{from.Backend().(Inner), by[0]}, To: slow{to.Backend().(Inner), by[1]},
						ToName: "new", Stage: both,
					})
					return campaignAs(t, b, election.Options{ID: id, TTL: 5 * time.Second, Logger: logger})
				}
				_, stop := start("0")
				time.Sleep(10 * time.Second)
				follower, stopNext := start("1")
				time.Sleep(10 * time.Second)
				began := time.Now()
				stop()
				drivertest.Leads(t, follower)
				if took := time.Since(began); took > 500*time.Millisecond {
					t.Errorf("a handover took %v", took)
				}
				stopNext()
				if log := lines.String(); strings.Contains(log, "nobody can be elected") {
					t.Errorf("half a release is reported as a fault of the store: %s", log)
				}
			})
		})
	}
}
