package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// lifecycle runs one election through everything that can happen to it, with two nodes. Each
// error states the rule that was broken.
func lifecycle(t *testing.T, l *lab, o Options, election string) {
	t.Helper()
	const ttl = time.Second
	a, b := openNode(t, "a", o), openNode(t, "b", o)

	vacant := a.observe(election)
	if vacant.Term != 0 || vacant.ObserveFor != 0 || !vacant.Vacant() {
		t.Errorf("a new election in new tables is free at once: %+v", vacant)
	}
	first := a.lead(election, ttl)
	if first.Term < uint64(time.Now().Add(-time.Minute).UnixMicro()) {
		t.Errorf("term %d is less than the microseconds since 1970", first.Term)
	}
	if first.Version == "" || first.TTL != ttl || first.Renew != (ttl/3+time.Microsecond).Truncate(time.Microsecond) || first.ObserveFor != 0 || first.Holder != a.me {
		t.Errorf("the granted lease is %+v", first)
	}
	if got := b.observe(election); !sameLease(got, first) || got.Holder != a.me {
		t.Errorf("others must see the lease that was granted:\n%+v\n%+v", got, first)
	}
	if answer, err := b.bid(vacant, ttl); err != nil || answer.Outcome != backend.Refused || !sameLease(answer.Lease, first) {
		t.Errorf("a bid over a lease that has changed is refused, with the present lease: %+v, %v", answer, err)
	}
	held, versions := first, map[string]bool{first.Version: true}
	for range 20 { // within one second: row counts and coarse clocks would fail here
		held = a.mustRenew(held)
		if held.Term != first.Term || versions[held.Version] {
			t.Errorf("a renewal keeps the term and gives a fresh Version: %+v", held)
		}
		versions[held.Version] = true
	}
	if answer, err := b.bid(first, ttl); err != nil || answer.Outcome != backend.Refused {
		t.Errorf("a bid over a lease that was renewed since is refused: %+v, %v", answer, err)
	}
	ctx, cancel := a.ctx()
	defer cancel()
	if changed, err := a.Observe(ctx, []backend.Lease{held}); err != nil || len(changed) != 0 {
		t.Errorf("Observe returns only what has changed: %+v, %v", changed, err)
	}
	second, err := b.bid(b.observe(election), ttl) // as if it had been observed
	if err != nil || second.Outcome != backend.Granted || second.Term <= first.Term || second.End != backend.Failed || second.LastID != "a" {
		t.Errorf("a bid over the present lease is granted, with a greater term and the last holder: %+v, %v", second, err)
	}
	if answer, err := a.renew(held); err != nil || answer.Outcome != backend.Refused || !sameLease(answer.Lease, second.Lease) {
		t.Errorf("a renewal after another grant is refused, with the present lease: %+v, %v", answer, err)
	}
	if err := a.release(held, backend.Released); err != nil || !sameLease(b.observe(election), second.Lease) {
		t.Errorf("a release of an earlier term changes nothing and is no error: %v", err)
	}
	if err := a.Request(ctx, []backend.Request{{Election: election, Term: first.Term, Kind: backend.Depose}}); !errors.Is(err, backend.ErrStale) {
		t.Errorf("a request for an earlier term: %v, want ErrStale", err)
	}
	request := backend.Request{Election: election, Term: second.Term, Kind: backend.Nominate, ID: "a"}
	if err := a.Request(ctx, []backend.Request{request}); err != nil {
		t.Errorf("a request: %v", err)
	}
	if err := a.Request(ctx, []backend.Request{request}); err != nil {
		t.Errorf("the same request again changes no row, and is no error: %v", err)
	}
	renewed, err := b.renew(second.Lease)
	if err != nil || renewed.Outcome != backend.Granted || renewed.Request != request {
		t.Errorf("a renewal carries the request: %+v, %v", renewed, err)
	}
	if err := a.Request(ctx, []backend.Request{{Election: election, Term: second.Term, Kind: backend.Depose}}); err != nil {
		t.Errorf("a request: %v", err)
	}
	if answer, err := b.renew(renewed.Lease); err != nil || answer.Outcome != backend.Refused || answer.Request.Kind != backend.Depose {
		t.Errorf("the renewal of a deposed leader is refused: %+v, %v", answer, err)
	}
	if err := b.release(backend.Lease{Election: election}, backend.Deposed); err != nil {
		t.Errorf("release of whatever this nonce holds: %v", err)
	}
	free := a.observe(election)
	if !free.Vacant() || free.ObserveFor != 0 || free.Term != second.Term || free.End != backend.Deposed || free.LastID != "b" || free.TTL != 0 {
		t.Errorf("after a release the record stays, vacant, with its term and its end: %+v", free)
	}
	third := a.lead(election, ttl)
	if third.Request != (backend.Request{}) {
		t.Errorf("a grant clears the request: %+v", third.Request)
	}
	fourth, err := a.bid(vacant, ttl)
	if err != nil || fourth.Outcome != backend.Granted || fourth.Term <= third.Term {
		t.Errorf("a leftover of the bidder's own nonce is granted anew, with a new term: %+v, %v", fourth, err)
	}
	if err := a.release(fourth.Lease, backend.Released); err != nil {
		t.Error(err)
	}
	records, err := a.List(ctx, election, 1)
	if err != nil || len(records) != 1 {
		t.Fatalf("List: %+v, %v", records, err)
	}
	var story []string
	for _, r := range records[0].History {
		if r.From.IsZero() || r.To.Before(r.From) || time.Since(r.From) > time.Hour {
			t.Errorf("a leadership from %v to %v, by a clock like ours", r.From, r.To)
		}
		story = append(story, fmt.Sprintf("%s %s", r.ID, r.End))
	}
	if want := "a released, a failed, b deposed, a failed"; strings.Join(story, ", ") != want {
		t.Errorf("the history is %q, want %q", strings.Join(story, ", "), want)
	}
	m := backend.Member{Candidate: a.me, Stage: "both", TTL: callLimit}
	for range 3 {
		if err := a.Announce(ctx, m); err != nil {
			t.Errorf("announce: %v", err)
		}
	}
	members, err := b.Members(ctx, string(a.me.Nonce), 1)
	if err != nil || len(members) != 1 || members[0].Candidate != m.Candidate || members[0].Stage != m.Stage || members[0].TTL != m.TTL {
		t.Errorf("members: %+v, %v; want %+v", members, err, m)
	}
}

func TestAnElectionLivesUnderAnySettings(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		isolation := "transaction_isolation"
		if k == testbed.MariaDB {
			isolation = "tx_isolation"
		}
		globals := map[string][]string{
			"defaults":         {},
			"lax sql_mode":     {"sql_mode=''"},
			"unusual sql_mode": {"sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,NO_ZERO_DATE'"},
			"time zone":        {"time_zone='-05:30'"},
			"repeatable read":  {isolation + "='REPEATABLE-READ'"},
			"serializable":     {isolation + "='SERIALIZABLE'"},
			"no autocommit":    {"autocommit=0"},
			"implicit columns": {"explicit_defaults_for_timestamp=0"},
			"short limits":     {"max_execution_time=500"},
			"init_connect":     {"init_connect='SET timestamp=1000000000, autocommit=0, innodb_lock_wait_timeout=50'"},
			"chained":          {"completion_type='CHAIN'"},
			"released":         {"completion_type='RELEASE'"},
			"a row at a time":  {"sql_select_limit=1"},
			"a few rows":       {"sql_select_limit=4"},
			"for beginners":    {"sql_safe_updates=1"},
			"small joins":      {"max_join_size=1"},
			"read only":        {strings.Replace(isolation, "isolation", "read_only", 1) + "=1"},
		}
		if k == testbed.MariaDB {
			globals["simultaneous"] = []string{"sql_mode='SIMULTANEOUS_ASSIGNMENT,STRICT_ALL_TABLES'"}
			globals["snapshot"] = []string{"innodb_snapshot_isolation=1", isolation + "='REPEATABLE-READ'"}
			globals["short limits"] = []string{"max_statement_time=0.5"}
			globals["oracle"] = []string{"sql_mode='ORACLE'"}
		}
		before := map[string]string{}
		for what, set := range globals {
			for _, s := range set {
				name, _, _ := strings.Cut(s, "=")
				var old string
				if err := l.admin.QueryRow("SELECT @@GLOBAL." + name).Scan(&old); err != nil {
					t.Fatal(err)
				}
				if name == "max_statement_time" || name == "max_execution_time" {
					old = "0"
				} else if _, number := fmt.Sscan(old, new(float64)); number != nil {
					old = "'" + old + "'"
				}
				before[name] = old
				l.exec(t, "SET GLOBAL "+s)
			}
			t.Run(what, func(t *testing.T) {
				lifecycle(t, l, Options{Config: l.User}, what)
				if what == "short limits" { // every statement above is shorter, and so must be those of a new connection
					name, _, _ := strings.Cut(set[0], "=")
					want := map[string]float64{"max_execution_time": 3000, "max_statement_time": 3}[name]
					var limit float64
					if err := openNode(t, "limits", Options{Config: l.User}).db.QueryRow("SELECT @@SESSION." + name).Scan(&limit); err != nil || limit != want {
						t.Errorf("%s is %v in our sessions, %v; want %v, whatever the server's setting", name, limit, err, want)
					}
				}
			})
			for _, s := range set {
				name, _, _ := strings.Cut(s, "=")
				l.exec(t, "SET GLOBAL "+name+"="+before[name])
			}
		}
	})
}

func TestAnElectionLivesWithAnyClient(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		away, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Skip(err)
		}
		clients := map[string]func(*mysql.Config){
			"found rows":  func(c *mysql.Config) { c.ClientFoundRows = true },
			"parse time":  func(c *mysql.Config) { c.ParseTime, c.Loc = true, away },
			"prepared":    func(c *mysql.Config) { c.InterpolateParams = false },
			"read only":   func(c *mysql.Config) { c.RejectReadOnly = true },
			"session":     func(c *mysql.Config) { c.Params = map[string]string{"autocommit": "0", "time_zone": "'+09:00'"} },
			"collation":   func(c *mysql.Config) { c.Collation = "latin1_german1_ci" },
			"found, time": func(c *mysql.Config) { c.ClientFoundRows, c.ParseTime, c.InterpolateParams = true, true, false },
		}
		for what, change := range clients {
			c := clone(l.User, change)
			t.Run(what, func(t *testing.T) { lifecycle(t, l, Options{Config: c}, what) })
			t.Run(what+", as a connector", func(t *testing.T) {
				connector, err := mysql.NewConnector(c)
				if err != nil {
					t.Fatal(err)
				}
				lifecycle(t, l, Options{Connector: connector}, what+", as a connector")
			})
		}
		t.Run("DSN", func(t *testing.T) { lifecycle(t, l, Options{DSN: l.User.FormatDSN()}, "DSN") })
		t.Run("registered", func(t *testing.T) {
			b, err := backend.Open(Name, func(into any) error {
				return decodeInto(into, map[string]any{"DSN": l.User.FormatDSN(), "NotifyConns": -1})
			})
			if err != nil || b.Guarantees().Push {
				t.Errorf("Open by name: %v, %+v", err, b)
			} else {
				b.Close()
			}
		})
	})
}

// A poisoned connector makes connections with a frozen clock and other harmful settings, as
// another user of a shared pool might leave them.
type poisoned struct{ sqldriver.Connector }

func (f poisoned) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	_, err = conn.(sqldriver.ExecerContext).ExecContext(ctx, "SET timestamp=1000000000, time_zone='-07:00', autocommit=0, sql_mode=''", nil)
	return conn, err
}

func TestPoisonedSessionsAreReset(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		connector, err := mysql.NewConnector(clone(l.User, func(c *mysql.Config) { c.InterpolateParams = true }))
		if err != nil {
			t.Fatal(err)
		}
		lifecycle(t, l, Options{Connector: poisoned{connector}}, "a")
	})
}

// With completion_type=CHAIN a COMMIT begins another transaction. A renewal in it would read
// back on that connection, and be rolled back with it.
func TestRenewalsCommitDespiteChainedTransactions(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		a := openNode(t, "a", Options{Config: clone(l.User, func(c *mysql.Config) { c.Params = map[string]string{"completion_type": "'CHAIN'"} })})
		b := l.node(t, "b")
		held := a.lead("x", time.Second)
		seen := b.observe("x")
		a.mustRenew(held)
		if b.observe("x").Unchanged(seen) {
			t.Error("two leaders: a renewal was granted, and a challenger sees none")
		}
	})
}
