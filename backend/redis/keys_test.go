package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// An item whose version is gone counts as edited, and what was read before fits no more.
func TestALostVersionShows(t *testing.T) {
	t.Parallel()
	server := testbed.SharedRedis(t)
	for what, command := range map[string]func(versions string) []any{
		"the version is deleted":   func(versions string) []any { return []any{"HDEL", versions, "record:jobs"} },
		"all versions are deleted": func(versions string) []any { return []any{"DEL", versions} },
	} {
		t.Run(what, func(t *testing.T) {
			d := open(t, settled(t, server, options(server)))
			v := drivertest.Read(t, d, recordKey("jobs"))
			drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
			v = drivertest.Read(t, d, recordKey("jobs"))
			server.Do(t, command(d.keys()[1])...)
			now := drivertest.Read(t, d, recordKey("jobs"))
			if it := now.Items[0]; !it.Edited || it.Version == v.Items[0].Version || it.Version == "" {
				t.Errorf("it is read as %+v", it)
			}
			if results, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 3}); err != nil || results[0].Outcome != backend.Refused {
				t.Errorf("a change over what was read before: %+v, %v; want it refused", results, err)
			}
			drivertest.MustPut(t, d, &now, &lease.Record{Election: "jobs", Term: 4})
			if it := drivertest.Read(t, d, recordKey("jobs")).Items[0]; it.Edited {
				t.Errorf("after a change of this package: %+v", it)
			}
		})
	}
}

// After FLUSHALL or SWAPDB, or if the item with the epoch is deleted, moved, or counts backwards, it is another epoch.
func TestALostOriginIsAnotherEpoch(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	for what, command := range map[string][]any{"everything is deleted": {"FLUSHALL"}, "the database is swapped": {"SWAPDB", 0, 1}, "the epoch is deleted": {"DEL", "origin"}, "the epoch is moved": {"MOVE", "origin", 2}, "its number goes back": {"HSET", "origin", "number", "1"}, "its number is none": {"HSET", "origin", "number", "x"}} {
		t.Run(what, func(t *testing.T) {
			o := options(server)
			d, other := open(t, o), open(t, o)
			for term := range uint64(3) {
				v := drivertest.Read(t, d, recordKey("jobs"))
				drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: term + 1})
			}
			before := drivertest.Read(t, d, recordKey("jobs"))
			if len(command) > 1 && command[1] == "origin" {
				command[1] = d.keys()[0]
			}
			server.Do(t, command...)
			if _, err := drivertest.Put(t, d, &before, &lease.Record{Election: "jobs", Term: 9}); !errors.Is(err, lease.ErrEpoch) {
				t.Errorf("a change by what was read before: %v, want ErrEpoch", err)
			}
			if now := drivertest.Read(t, other); now.Epoch == before.Epoch {
				t.Errorf("the epoch is %s as before", now.Epoch)
			}
		})
	}
}

// Members lead by one name at a time although keys vanish, as a server evicts them. Nobody who was there before
// leads sooner than the greatest TTL after that.
func TestEvictedKeysFreeNothing(t *testing.T) {
	t.Parallel()
	const ttl, greatest = 4 * time.Second, 5 * time.Second
	server := testbed.SharedRedis(t)
	for n := range 5 {
		t.Run(fmt.Sprint("key ", n), func(t *testing.T) {
			t.Parallel()
			o := options(server)
			o.MaxTTL = greatest
			settled(t, server, o)
			a := join(t, "a", ttl, o)
			_, err := a.Campaign(t.Context())
			testbed.NoError(t, err)
			proxy := server.Proxy(t)
			toB := o
			toB.Addresses = []string{proxy.Addr()}
			b := join(t, "b", ttl, toB)
			server.Do(t, "DEL", open(t, o).keys()[n])
			evicted := time.Now()
			testbed.NoError(t, b.Lead(nil))
			for time.Since(evicted) < greatest+ttl {
				if a.Leading() && b.Leading() {
					t.Fatalf("two leaders, %v after the key was deleted", time.Since(evicted))
				}
				<-time.After(time.Millisecond)
			}
		})
	}
}

// A late copy of a request that made an item makes nothing that looks like the former one.
func TestALateCreationIsAnotherItem(t *testing.T) {
	t.Parallel()
	server := testbed.SharedRedis(t)
	d := open(t, settled(t, server, options(server)))
	v := drivertest.Read(t, d, recordKey("jobs"))
	nonce, seen := newNonce(), map[string]bool{}
	for range 3 {
		args := append([]any{1}, appendChange(nil, &lease.Change{Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: "jobs", Term: 1}}}})...)
		if a, err := d.do(t.Context(), "write", nonce, v.Epoch, args...); err != nil || text(a.rest[0]) == "" {
			t.Fatal(a, err)
		}
		now := drivertest.Read(t, d, recordKey("jobs"))
		if it := now.Items[0]; seen[it.Version] || seen[it.Created] {
			t.Errorf("version %s or creation %s comes again", it.Version, it.Created)
		}
		seen[now.Items[0].Version], seen[now.Items[0].Created] = true, true
		w, err := d.Write(t.Context(), v.Epoch, 0, []lease.Change{{Put: []lease.Put{{Over: now.Items[0]}}}}, nil)
		if err != nil || w.Results[0].Outcome != backend.Granted {
			t.Fatal(w, err)
		}
	}
}

// A script that was flushed is sent again, and one that another client loaded is not needed.
func TestAFlushedScriptIsSentAgain(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	d := open(t, options(server))
	for term := range uint64(3) {
		server.Do(t, "SCRIPT", "FLUSH")
		v := drivertest.Read(t, d, recordKey("jobs"))
		server.Do(t, "SCRIPT", "FLUSH")
		drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: term + 1})
	}
}

// Processes with different greatest TTLs would wait differently after a failover.
func TestAllProcessesHaveTheSameMaxTTL(t *testing.T) {
	t.Parallel()
	server := testbed.SharedRedis(t)
	o := options(server)
	o.MaxTTL = 20 * time.Second
	drivertest.Read(t, open(t, o))
	o.MaxTTL = 0
	_, err := open(t, o).Read(t.Context(), nil)
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "max_ttl is 15s") || !strings.Contains(err.Error(), "is 20s") {
		t.Errorf("a process with another max_ttl: %v; want ErrDenied with both", err)
	}
	server.Do(t, "DEL", open(t, o).keys()[0]) // what docs/redis.md says to change it
	drivertest.Read(t, open(t, o))
}

// Text of a candidate is only text, and a name may have any byte.
func TestHostileTextIsOnlyText(t *testing.T) {
	t.Parallel()
	server := testbed.SharedRedis(t)
	d := open(t, settled(t, server, options(server)))
	v := drivertest.Read(t, d)
	var records []*lease.Record
	for _, name := range []string{"'; return 1 --", "\r\n$3\r\nDEL\r\n", `"`, "é€𝄞", "*", "{other}:record", "a/b!c", strings.Repeat("n", 20000)} {
		records = append(records, &lease.Record{Election: name, Term: 1, Metadata: name + "\x00\x1b"})
	}
	drivertest.MustPut(t, d, &v, records...)
	for _, r := range records {
		got := drivertest.Read(t, d, recordKey(r.Election)).Items[0]
		if now, ok := got.Value.(*lease.Record); !ok || lease.Encode(now) != lease.Encode(r) || got.Edited {
			t.Errorf("%.40q is read as %+v", r.Election, got)
		}
	}
}

// A call that puts and verifies thousands of items is sent in parts, none of which keeps the server long.
func TestLargeCallsAreSentInParts(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	d := open(t, settled(t, server, options(server)))
	v := drivertest.Read(t, d)
	const many = 3*maxVerify/2 + 7
	var records []*lease.Record
	var keys []lease.Key
	for i := range many {
		r := &lease.Record{Election: fmt.Sprintf("jobs%05d", i), Term: 1, ID: "someone", Nonce: "0123", Address: strings.Repeat("a", 200)}
		records, keys = append(records, r), append(keys, recordKey(r.Election))
	}
	server.Do(t, "CONFIG", "RESETSTAT")
	server.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "1000")
	server.Do(t, "CONFIG", "SET", "slowlog-max-len", "1000")
	drivertest.MustPut(t, d, &v, records...)
	v = drivertest.Read(t, d, keys...)
	for i, it := range v.Items {
		if r, ok := it.Value.(*lease.Record); !ok || r.Election != records[i].Election {
			t.Fatalf("item %d is read as %+v", i, it)
		}
	}
	changed := drivertest.Read(t, d, keys[many-3])
	drivertest.MustPut(t, d, &changed, records[many-3])
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session := lease.Item{Key: lease.Key{Kind: lease.Sessions, Name: "0123"}}
	w, err := d.Write(ctx, v.Epoch, 0, []lease.Change{{Put: []lease.Put{{Over: session, Value: &lease.Session{Nonce: "0123"}}}}}, v.Items)
	if err != nil || w.Results[0].Outcome != backend.Granted || len(w.Stale) != 1 || w.Stale[0] != many-3 {
		t.Errorf("a renewal that verifies %d items: %v of %v, %v; want %d stale", many, w.Stale, w.Results, err, many-3)
	}
	page, err := d.List(ctx, lease.Records, keys[10].Name, 2000)
	if err != nil || len(page.Items) != 2000 || page.Items[0].Key != keys[10] || page.Items[1999].Key != keys[2009] {
		t.Errorf("a page of 2000: %d items, %v", len(page.Items), err)
	}
	for _, entry := range server.Do(t, "SLOWLOG", "GET", "1000").([]any) {
		e := entry.([]any)
		command := e[3].([]any)
		if name := strings.ToLower(fmt.Sprint(command[0])); strings.HasPrefix(name, "eval") {
			t.Logf("%s %v: %d µs", name, command[min(8, len(command)-1)], e[2])
			if e[2].(int64) > 1e6 { // usually some milliseconds
				t.Errorf("the script has kept the server for %d µs", e[2])
			}
		}
	}
}

// startOff starts a server whose clock is off.
func startOff(t testing.TB, off time.Duration, args ...string) *testbed.RedisServer {
	t.Helper()
	server := testbed.StartRedis(t, testbed.Options{Clock: true, Args: args})
	server.Step(t, off)
	server.Terminate(t)
	server.Start(t)
	return server
}

// A server whose clock was wrong when it started has run for a negative time when it is set right, and for hours
// when it was behind.
func TestAnyClockOfTheServerElectsALeader(t *testing.T) {
	t.Parallel()
	for what, off := range map[string]time.Duration{"2 h ahead at the start": 2 * time.Hour, "2 h behind": -2 * time.Hour} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := startOff(t, off)
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
			drivertest.Read(t, d)
			server.Do(t, "HSET", d.keys()[0], "number", number)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			e := join(t, "a", time.Second, o)
			lead, err := e.Campaign(ctx)
			testbed.NoError(t, err)
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
	server := testbed.StartRedis(t, testbed.Options{})
	o := options(server)
	o.MaxTTL = time.Second
	awaitWork(t, server, 5*time.Second)
	if v := drivertest.Read(t, open(t, o), metaKey); v.Items[0].Version != "" {
		t.Errorf("the store may have lost a lease: %s", v.Items[0].Version)
	}
}

// Somebody has taken a command away, as those do who harden a server. The error says which are needed.
func TestACommandThatIsMissingIsDenied(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"eval", "hset"} {
		server := testbed.StartRedis(t, testbed.Options{Args: []string{"--rename-command", command, ""}})
		d := open(t, options(server))
		v, err := d.Read(t.Context(), nil)
		if err == nil {
			_, err = drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
		}
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "members need "+Rights) {
			t.Errorf("without %s: %v; want ErrDenied and the commands", command, err)
		}
	}
	// A service that is not quite Redis leaves out what INFO tells, or allows a command, but not in scripts.
	server := testbed.SharedRedis(t)
	for _, text := range []string{"string.find(nil, 'x')", "redis.call('ECHO', nil)", "redis.call('WATCH', 'x')"} {
		err := open(t, options(server)).fail(server.Admin().Eval(t.Context(), "return "+text, nil).Err())
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "members need "+Rights) {
			t.Errorf("the script says %s: %v; want ErrDenied and the commands", text, err)
		}
	}
}

// A connection is tried by PING before it replaces another one. A server need not know that, nor an account have the right.
func TestAConnectionIsReplacedWithoutPing(t *testing.T) {
	t.Parallel()
	for what, server := range map[string]*testbed.RedisServer{
		"the account may not":     testbed.StartRedis(t, testbed.Options{}),
		"the server knows it not": testbed.StartRedis(t, testbed.Options{Args: []string{"--rename-command", "PING", ""}}),
	} {
		server.AddUser(t, "app", "secret", "~*", "&*", "+@all", "-ping")
		o := options(server)
		o.Username, o.Password = "app", "secret"
		d := open(t, o)
		d.conns.Age = time.Millisecond
		connection := func() string {
			if _, err := d.Read(t.Context(), nil); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for line := range strings.Lines(server.Do(t, "CLIENT", "LIST").(string)) {
				if id, _, _ := strings.Cut(line, " addr="); strings.Contains(line, "name=go-election/") {
					return id
				}
			}
			return ""
		}
		first := connection()
		testbed.Eventually(t, patience, "the connection is replaced, where "+what, func() error {
			if connection() == first {
				return errors.New("it is not")
			}
			return nil
		})
	}
}
