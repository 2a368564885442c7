package config_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/lab/testbed"
)

// A Redis is restarted three times, and then the word in the configuration is changed, to each other store, and back. A
// fence that has seen the last term refuses those of the next store, but for no more than a day; and nothing that was
// granted comes back.
func TestRestartsPutTermsADayAheadAtMost(t *testing.T) {
	testbed.Full(t, "restarts a server")
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	conf := append(otherStores(t), "ELECTION_REDIS_ADDRESSES="+server.Addr(), "ELECTION_REDIS_MAX_TTL=3s")
	last := uint64(0)
	for range 3 {
		server.Kill(t)
		server.Start(t)
		term := leadOnce(t, "redis", conf)
		if ahead := aheadOfTheClock(term); term <= last || ahead > 24*time.Hour {
			t.Errorf("after a restart of Redis: term %d after %d, %v ahead of the clock", term, last, ahead)
		}
		last = term
	}
	for _, next := range []string{"mysql", "postgres", "etcd", "consul", "zookeeper", "file"} {
		first := leadOnce(t, next, conf)
		if ahead := aheadOfTheClock(first); ahead > 0 || first+backend.TermJump < last {
			t.Errorf("on %s the first term is %d, %v ahead of the clock: a fence that has seen %d refuses it for %v", next, first, ahead, last, time.Duration(last-first)*time.Microsecond)
		}
		if again := leadOnce(t, "redis", conf); again <= last || aheadOfTheClock(again) > 24*time.Hour {
			t.Errorf("back on Redis from %s: term %d after %d, %v ahead of the clock", next, again, last, aheadOfTheClock(again))
		} else {
			last = again
		}
	}
}

// Where nothing was damaged, terms grow across any change of the word at once.
func TestTermsGrowAcrossStoresWithoutDamage(t *testing.T) {
	testbed.Full(t, "uses all stores")
	t.Parallel()
	conf, last := otherStores(t), uint64(0)
	for _, store := range []string{"mysql", "postgres", "mysql", "etcd", "consul", "etcd", "zookeeper", "file", "zookeeper", "postgres", "file"} {
		term := leadOnce(t, store, conf)
		if ahead := aheadOfTheClock(term); term <= last || ahead > 0 {
			t.Errorf("%s: term %d after %d, %v ahead of the clock", store, term, last, ahead)
		}
		last = term
	}
}

// otherStores are the settings of all stores but Redis, with nothing in them.
func otherStores(t *testing.T) []string {
	return []string{
		"ELECTION_MYSQL_DSN=" + mysqlTable(t, testbed.Shared(t, testbed.MariaDB)),
		"ELECTION_POSTGRES_DSN=" + testbed.SharedPostgres(t).Database(t).DSN(""),
		"ELECTION_ETCD_ENDPOINTS=" + strings.Join(testbed.SharedEtcd(t), ","), "ELECTION_ETCD_PREFIX=" + rand.Text() + "/",
		"ELECTION_CONSUL_ADDRESS=" + testbed.SharedConsul(t).URL(), "ELECTION_CONSUL_PREFIX=" + rand.Text(),
		"ELECTION_ZOOKEEPER_SERVERS=" + strings.Join(testbed.SharedZooKeeper(t), ","), "ELECTION_ZOOKEEPER_ROOT=/" + rand.Text(),
		"ELECTION_FILE_DIR=" + t.TempDir(),
	}
}

// A migration carries the terms over, though they are a day ahead of the clock.
func TestAMigrationCarriesTermsOverThatAreAhead(t *testing.T) {
	testbed.Full(t, "restarts a server")
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	conf := []string{"ELECTION_REDIS_ADDRESSES=" + server.Addr(), "ELECTION_REDIS_MAX_TTL=3s", "ELECTION_MYSQL_DSN=" + mysqlTable(t, testbed.Shared(t, testbed.MariaDB)),
		"ELECTION_MIGRATION_FROM=redis", "ELECTION_MIGRATION_TO=mysql"}
	last := leadOnce(t, "redis", conf[:2])
	server.Kill(t)
	server.Start(t)
	for _, step := range []struct{ store, stage string }{{"redis", ""}, {"migration", "both"}, {"migration", "to"}, {"mysql", ""}} {
		settings := conf[:3]
		if step.stage != "" {
			settings = append(conf[:5:5], "ELECTION_MIGRATION_STAGE="+step.stage)
		}
		term := leadOnce(t, step.store, settings)
		if ahead := aheadOfTheClock(term); term <= last || ahead > 24*time.Hour+time.Minute { // a term for two stores is seconds ahead of what they know
			t.Errorf("%s %s: term %d after %d, %v ahead of the clock", step.store, step.stage, term, last, ahead)
		}
		last = term
	}
}

// ALTER TABLE … ADD COLUMN … DEFAULT gen_random_uuid() writes all rows anew: for the election they are edited.
func TestARewrittenTablePutsTermsADayAheadAtMost(t *testing.T) {
	testbed.Full(t, "waits for the greatest TTL")
	t.Parallel()
	db := testbed.SharedPostgres(t).Database(t)
	conf := []string{"ELECTION_POSTGRES_DSN=" + db.DSN(""), "ELECTION_POSTGRES_MAX_TTL=3s"}
	last := leadOnce(t, "postgres", conf)
	for _, column := range []string{"one", "two"} {
		db.Exec(t, "ALTER TABLE election_item ADD COLUMN "+column+" uuid DEFAULT gen_random_uuid()")
		term := leadOnce(t, "postgres", conf)
		if ahead := aheadOfTheClock(term); term <= last || ahead > 24*time.Hour {
			t.Errorf("after the table was rewritten: term %d after %d, %v ahead of the clock", term, last, ahead)
		}
		last = term
	}
}

// A store that keeps what it has acknowledged is the same after a restart, whatever way it ended: terms go on from the clock.
func TestARestartThatLosesNothingPutsNoTermAhead(t *testing.T) {
	testbed.Full(t, "restarts servers")
	t.Parallel()
	maria, pg := testbed.Start(t, testbed.MariaDB, testbed.Options{}), testbed.StartPostgres(t, testbed.Options{})
	etcd, consul, zoo := testbed.StartEtcd(t, testbed.Options{}), testbed.StartConsul(t, testbed.Options{}), testbed.StartZooKeeper(t, testbed.Options{})
	for store, c := range map[string]struct {
		server restarted
		conf   []string
	}{
		"mysql":     {maria, []string{"ELECTION_MYSQL_DSN=" + mysqlTable(t, maria)}},
		"postgres":  {pg, []string{"ELECTION_POSTGRES_DSN=" + pg.Database(t).DSN("")}},
		"etcd":      {etcd, []string{"ELECTION_ETCD_ENDPOINTS=" + etcd.URL()}},
		"consul":    {consul, []string{"ELECTION_CONSUL_ADDRESS=" + consul.URL()}},
		"zookeeper": {zoo, []string{"ELECTION_ZOOKEEPER_SERVERS=" + zoo.Addr()}},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			last := leadOnce(t, store, c.conf)
			for _, end := range []func(testing.TB){c.server.Terminate, c.server.Kill} {
				end(t)
				c.server.Start(t)
				term := leadOnce(t, store, c.conf)
				if ahead := aheadOfTheClock(term); term <= last || ahead > 0 {
					t.Errorf("after a restart: term %d after %d, %v ahead of the clock", term, last, ahead)
				}
				last = term
			}
		})
	}
}

type restarted interface {
	Terminate(testing.TB)
	Kill(testing.TB)
	Start(testing.TB)
}

// leadOnce elects a leader on a store, and returns its term.
func leadOnce(t *testing.T, store string, conf []string) uint64 {
	t.Helper()
	c, err := config.Load("", config.Options{Environ: append([]string{"ELECTION_BACKEND=" + store, "ELECTION_TTL=2s", "ELECTION_ID=" + rand.Text()}, conf...)})
	testbed.NoError(t, err)
	m, err := c.Open(t.Context())
	testbed.NoError(t, err)
	defer m.Close(context.Background())
	e, err := m.Join("billing")
	testbed.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lead, err := e.Campaign(ctx)
	if err != nil {
		t.Fatalf("%s: %v", store, err)
	}
	return lead.Term
}

func aheadOfTheClock(term uint64) time.Duration {
	return time.Until(time.UnixMicro(int64(term)))
}

// mysqlTable makes the table in a new database, and returns the DSN.
func mysqlTable(t *testing.T, s *testbed.Server) string {
	t.Helper()
	d := s.Database(t)
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""))
	return d.User.FormatDSN()
}
