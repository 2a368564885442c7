package migration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/backend/redis"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// An opener opens one store again and again, for one process each.
type opener func(t *testing.T) backend.Backend

// opened returns a Backend that must open.
func opened(t *testing.T, b backend.Backend, err error) backend.Backend {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func redisOpener(t *testing.T) opener {
	o := redis.Options{Addresses: []string{testbed.SharedRedis(t).Addr()}, Prefix: string(backend.NewNonce()[:12])}
	return func(t *testing.T) backend.Backend {
		b, err := redis.Open(o)
		return opened(t, b, err)
	}
}

func postgresOpener(t *testing.T) opener {
	o := postgres.Options{DSN: testbed.SharedPostgres(t).Database(t).DSN("")}
	return func(t *testing.T) backend.Backend {
		b, err := postgres.Open(o)
		return opened(t, b, err)
	}
}

func mysqlOpener(t *testing.T) opener {
	o := mysql.Options{Config: testbed.Shared(t, testbed.MariaDB).Database(t).Admin}
	return func(t *testing.T) backend.Backend {
		b, err := mysql.Open(o)
		return opened(t, b, err)
	}
}

// A leader ends in order at stage both. The follower hears of the first half before the second is free, and
// must lead all the same long before it would read again.
func TestAHandoverAtBothTakesNoReading(t *testing.T) {
	t.Parallel()
	for name, open := range map[string][2]func(*testing.T) opener{
		"redis to postgres": {redisOpener, postgresOpener},
		"postgres to redis": {postgresOpener, redisOpener},
		"redis to mysql":    {redisOpener, mysqlOpener},
		"postgres to mysql": {postgresOpener, mysqlOpener},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := open[0](t), open[1](t)
			start := func(id string) (*election.Election, func()) {
				b, err := migration.New(migration.Options{From: from(t), To: to(t), Stage: migration.Both})
				e, stop := campaignAs(t, opened(t, b, err), election.Options{ID: id, TTL: 10 * time.Second})
				t.Cleanup(stop)
				return e, stop
			}

			e, stop := start("0")
			testbed.Leads(t, e)
			for i := range 8 {
				follower, stopNext := start(fmt.Sprint(i + 1))
				testbed.Eventually(t, time.Minute, "the follower to know its leader", func() error {
					if _, _, known := follower.Leader(); !known {
						return errors.New("it knows none")
					}
					return nil
				})
				began := time.Now()
				stop()
				testbed.Leads(t, follower)
				took := time.Since(began)
				t.Logf("a handover took %v", took)
				if took > 2*time.Second { // a reading comes after 3.3 s
					t.Errorf("a handover took %v", took)
				}
				stop = stopNext
			}
		})
	}
}

// slow takes its time to release.
type slow struct {
	backend.Backend
	by time.Duration
}

func (s slow) Release(ctx context.Context, held []backend.Held) error {
	time.Sleep(s.by)
	return s.Backend.Release(ctx, held)
}

func (s slow) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return s.Backend.(backend.Marker).Mark(ctx, held)
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
					b, err := migration.New(migration.Options{From: slow{from.Backend(), by[0]}, To: slow{to.Backend(), by[1]}, ToName: "new", Stage: migration.Both})
					return campaignAs(t, opened(t, b, err), election.Options{ID: id, TTL: 5 * time.Second, Logger: logger})
				}
				_, stop := start("0")
				time.Sleep(10 * time.Second)
				follower, stopNext := start("1")
				time.Sleep(10 * time.Second)
				began := time.Now()
				stop()
				testbed.Leads(t, follower)
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
