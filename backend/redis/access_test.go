package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

func TestBadOptionsAreRefused(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	cluster := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	sentinels := goredis.NewFailoverClusterClient(&goredis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, DB: 3})
	defer sentinels.Close()
	one := []string{"127.0.0.1:1"}
	for want, o := range map[string]Options{
		"no addresses":                       {},
		"2 addresses without master":         {Addresses: []string{"a:1", "b:1"}},
		"may hold a password":                {Addresses: []string{"redis://u:canary7f3a@a:1"}},
		"address 1 is not":                   {Addresses: []string{"canary7f3a@a:1"}},
		"address 2 is not":                   {Addresses: []string{"a:1", "u:canary7f3a:a"}, Master: "m"},
		"address 3 is not":                   {Addresses: []string{"a:1", "b", "c:70000"}, Master: "m"},
		"set together with Client":           {Client: client, Password: "canary7f3a"},
		"the Client is a *redis.Ring":        {Client: ring},
		"the Client is that of a cluster":    {Client: cluster, WaitReplicas: 1},
		"the Client has ClusterSlots":        {Client: sentinels},
		"its database cannot be known":       {Client: struct{ goredis.UniversalClient }{client}},
		`prefix is "a{b}"`:                   {Addresses: one, Prefix: "a{b}"},
		"max_ttl is 500ms":                   {Addresses: one, MaxTTL: 500 * time.Millisecond},
		"max_ttl is 6m0s":                    {Addresses: one, MaxTTL: 6 * time.Minute},
		"wait_replicas is -1":                {Addresses: one, WaitReplicas: -1},
		"db is -1":                           {Addresses: one, DB: -1},
		"Sentinels are set without master":   {Addresses: one, SentinelPassword: "canary7f3a"},
		"user name is set without its passw": {Addresses: one, Username: "app"},
		"ca_file: open /nowhere":             {Addresses: one, CAFile: "/nowhere"},
	} {
		_, err := Open(o)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("want an invalid option with %q, got %v", want, err)
		}
	}
}

// An address without a port has the port of a server or of a Sentinel.
func TestAnAddressMayLackItsPort(t *testing.T) {
	for given, want := range map[string]string{"[::1]": "[::1]:6379", "::1": "[::1]:6379", "fe80::1%lo": "[fe80::1%lo]:6379", "redis": "redis:6379", "127.0.0.1": "127.0.0.1:6379", "[::1]:7": "[::1]:7"} {
		d, err := newDriver(Options{Addresses: []string{given}})
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		d.Close()
		if !strings.HasPrefix(d.location, want+"/") {
			t.Errorf("%s leads to %s, want %s", given, d.location, want)
		}
	}
}

// Statements of errors can be pasted: a user without rights is told what it needs, and then leads.
func TestTheStatementInAnErrorMendsIt(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	o := options(server)
	o.Username, o.Password = "app", "canary-"+string(backend.NewNonce())
	settled(t, server, Options{Addresses: o.Addresses, Prefix: o.Prefix})
	server.AddUser(t, o.Username, o.Password, "+hello")
	b := backendOn(t, o)
	errs := b.Preflight(t.Context(), []backend.Bid{candidate(t, b).BidOver(backend.Lease{Election: "jobs"})})
	_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
	for _, err := range append(errs, err) {
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "ACL SETUSER app ") || strings.Contains(err.Error(), "canary") {
			t.Fatalf("a user without rights: %v; want ErrDenied and a statement", err)
		}
	}
	_, statement, _ := strings.Cut(err.Error(), "ACL SETUSER ")
	rights := strings.Fields(statement)[1:]
	for i, right := range rights { // each is needed
		switch right {
		case "+ping", "+wait", "+hello": // for wait_replicas, or the client
			continue
		}
		less := append(append([]string{"+hello"}, rights[:i]...), rights[i+1:]...)
		server.AddUser(t, o.Username, o.Password, less...)
		one := open(t, o)
		err := one.tryOut(t.Context())
		if err == nil {
			err = heard(t, one)
		}
		if right == "+eval" {
			server.Do(t, "SCRIPT", "FLUSH")
			err = one.tryOut(t.Context())
		}
		if !errors.Is(err, backend.ErrDenied) {
			t.Errorf("without %s: %v, want ErrDenied", right, err)
		}
		if n := server.Do(t, "HLEN", one.keys()[3]); n != int64(0) {
			t.Errorf("without %s half a change was made: %v sessions", right, n)
		}
	}
	server.AddUser(t, o.Username, o.Password, rights...)
	b = backendOn(t, o)
	a := candidate(t, b)
	testbed.NoError(t, b.Preflight(t.Context(), []backend.Bid{a.BidOver(backend.Lease{Election: "jobs"})})[0])
	if n := server.Do(t, "HLEN", open(t, o).keys()[3]); n != int64(0) {
		t.Errorf("Preflight has left %v items", n)
	}
	a.Leads("jobs")
}

// heard lets a driver listen, and tell of a change that it makes itself.
func heard(t testing.TB, d *driver) error {
	t.Helper()
	v := drivertest.Read(t, d, recordKey("jobs"))
	told := make(chan error, 1)
	go func() {
		told <- d.Listen(t.Context(), v.Position, nil, func([]lease.Item, uint64) bool { return false })
	}()
	if err := <-told; err != nil { // that it subscribed
		return err
	}
	v.Position = d.currentPosition()
	go func() {
		told <- d.Listen(t.Context(), v.Position, nil, func([]lease.Item, uint64) bool { return false })
	}()
	_, err := d.Write(t.Context(), v.Epoch, 0, []lease.Change{{Notify: true, Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: "jobs", Term: 1}}}}}, nil)
	if err != nil {
		return err
	}
	select {
	case err := <-told:
		return err
	case <-time.After(2 * time.Second):
		return fmt.Errorf("%w: nothing was told", backend.ErrDenied)
	}
}

// An observer only reads. A candidate with its rights is told what it lacks.
func TestAnObserverOnlyReads(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	o := options(server)
	watching := o
	watching.Username, watching.Password = "observer", "canary-observer"
	server.AddUser(t, watching.Username, watching.Password, "~{"+o.Prefix+"}:*", "&{"+o.Prefix+"}:*", "+eval", "+evalsha", "+info", "+hget", "+hmget", "+hlen", "+hkeys", "+subscribe", "+hello", "+select")
	b := backendOn(t, watching)
	if l := candidate(t, b).Sees("jobs"); !l.Vacant() { // nobody has written the epoch yet
		t.Errorf("an empty store: %+v", l)
	}
	member := backendOn(t, settled(t, server, o))
	a := candidate(t, member)
	a.Leads("jobs")
	if l := candidate(t, b).Sees("jobs"); l.Holder.ID != "a" {
		t.Errorf("the observer sees %+v", l)
	}
	errs := b.Preflight(t.Context(), []backend.Bid{a.BidOver(backend.Lease{Election: "jobs"})})
	if !errors.Is(errs[0], backend.ErrDenied) || !strings.Contains(errs[0].Error(), "ACL SETUSER observer ") || strings.Contains(errs[0].Error(), "canary") {
		t.Errorf("a candidate with the rights of an observer: %v", errs[0])
	}
}

// A server with TLS and a password. Neither is forgotten when connections are made anew, and no error shows the password.
func TestTLSAndPasswords(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{TLS: true})
	const secret = "canary-of-tls"
	server.AddUser(t, "app", secret, "allkeys", "allchannels", "allcommands")
	good := options(server)
	good.CAFile, good.Username, good.Password = server.CAFile(), "app", secret
	own := ownClient(t, &goredis.Options{Addr: server.Addr(), Username: "app", Password: secret, TLSConfig: server.TLSConfig()})
	handed := good
	handed.CAFile, handed.TLS = "", server.TLSConfig()
	for what, o := range map[string]Options{"files": good, "a TLS configuration": handed, "a client": {Client: own, Prefix: good.Prefix}} {
		d := open(t, o)
		v := drivertest.Read(t, d, recordKey(what))
		drivertest.MustPut(t, d, &v, &lease.Record{Election: what, Term: 1})
		if err := heard(t, d); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		drivertest.Read(t, d)
		if !strings.HasPrefix((&Backend{driver: d}).Location(), server.Addr()+"/0/") {
			t.Errorf("%s: location %s", what, (&Backend{driver: d}).Location())
		}
	}
	for what, o := range map[string]Options{
		"a wrong password":            {Addresses: good.Addresses, CAFile: good.CAFile, Username: "app", Password: "canary-wrong"},
		"an authority of the system":  {Addresses: good.Addresses, CAFile: "", Username: "app", Password: secret, TLS: testbed.StartRedis(t, testbed.Options{TLS: true}).TLSConfig()},
		"a user that is not there":    {Addresses: good.Addresses, CAFile: good.CAFile, Username: "canary-user", Password: secret},
		"a database that is not here": {Addresses: good.Addresses, CAFile: good.CAFile, Username: "app", Password: secret, DB: 9999},
	} {
		_, err := open(t, o).Read(t.Context(), nil)
		if !errors.Is(err, backend.ErrDenied) || strings.Contains(err.Error(), "canary-o") || strings.Contains(err.Error(), "canary-w") {
			t.Errorf("%s: %v; want ErrDenied without the password", what, err)
		}
	}
	plain := good
	plain.CAFile = ""
	if _, err := open(t, plain).Read(t.Context(), nil); !errors.Is(err, backend.ErrUnavailable) || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "wants TLS, ") || !strings.Contains(err.Error(), "or is a proxy that reaches none") {
		t.Errorf("without TLS: %v; want ErrUnavailable, and that the server may want it, or be a proxy", err)
	}
}

// A server that refuses to write says why, and nothing was changed by half.
func TestAFullServerRefusesWholeChanges(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	d := open(t, settled(t, server, options(server)))
	v := drivertest.Read(t, d, recordKey("jobs"))
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if _, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 1}); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("a full server: %v; want ErrDenied and what to do", err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	server.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	if _, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 1}); !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) {
		t.Errorf("without enough replicas: %v; want ErrUnavailable", err)
	}
	server.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	if now := drivertest.Read(t, d, recordKey("jobs")); now.Items[0].Version != "" || now.Records != 0 || now.Epoch != v.Epoch {
		t.Errorf("after refused changes: %+v", now)
	}
	server.Do(t, "SET", d.keys()[2], "x")
	if _, err := d.Read(t.Context(), []lease.Key{recordKey("jobs")}); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "another prefix") {
		t.Errorf("keys of another program: %v; want ErrDenied and what to do", err)
	}
}

var ofCluster = testbed.Options{Args: []string{"--cluster-enabled", "yes"}}

func startCluster(t *testing.T) *testbed.RedisServer {
	server := testbed.StartRedis(t, ofCluster)
	slots := []any{"CLUSTER", "ADDSLOTS"} // Redis 6.2 has no ADDSLOTSRANGE
	for n := range 16384 {
		slots = append(slots, n)
	}
	server.Do(t, slots...)
	return server
}

// A server cannot save its data, and refuses to write and even to answer PING. Who opens a connection then is still told
// who leads.
func TestAServerThatCannotSaveIsRead(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{Args: []string{"--save", "3600 1"}})
	o := options(server)
	drivertest.Read(t, open(t, o))
	testbed.NoError(t, os.MkdirAll(filepath.Join(server.Dir(), "dump.rdb", "in the way"), 0o700))
	testbed.Eventually(t, patience, "it says so", func() error {
		server.Admin().BgSave(t.Context())
		if err := server.Admin().Ping(t.Context()).Err(); !goredis.HasErrorPrefix(err, "MISCONF") {
			return fmt.Errorf("PING: %v", err)
		}
		return nil
	})
	d := open(t, o)
	v, err := d.Read(t.Context(), []lease.Key{recordKey("jobs")})
	testbed.NoError(t, err)
	if _, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 1}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("a write: %v; want ErrDenied", err)
	}
}

// A cluster has all keys on one of its masters.
func TestAClusterKeepsAllKeysOnOneMaster(t *testing.T) {
	t.Parallel()
	server := startCluster(t)
	testbed.Eventually(t, patience, "the cluster is up", func() error {
		if info := fmt.Sprint(server.Do(t, "CLUSTER", "INFO")); !strings.Contains(info, "cluster_state:ok") {
			return errors.New(info)
		}
		return nil
	})
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { client.Close() })
	server.AddUser(t, "app", "secret", "+hello")
	asApp := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{server.Addr()}, Username: "app", Password: "secret"})
	t.Cleanup(func() { asApp.Close() })
	_, err := open(t, Options{Client: asApp}).Read(t.Context(), nil)
	_, statement, _ := strings.Cut(fmt.Sprint(err), "ACL SETUSER app ")
	server.AddUser(t, "app", "secret", strings.Fields(statement)...)
	if err := open(t, Options{Client: asApp}).tryOut(t.Context()); err != nil {
		t.Errorf("the statement does not mend it: %v", err)
	}
	leasetest.Run(t, leasetest.Harness{NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
		o := settled(t, server, Options{Client: client, Prefix: string(backend.NewNonce()[:12])})
		return func(t testing.TB) lease.Driver { return open(t, o) }
	}})
}

// One server of a cluster knows where the keys are, and a client that is not the cluster's does not go there.
func TestAServerOfAClusterIsDenied(t *testing.T) {
	t.Parallel()
	one, other := testbed.StartRedis(t, ofCluster), startCluster(t)
	host, port, _ := strings.Cut(other.Addr(), ":")
	_, bus, _ := strings.Cut(other.Do(t, "CLUSTER", "NODES").(string), "@")
	one.Do(t, "CLUSTER", "MEET", host, port, strings.Fields(bus)[0])
	testbed.Eventually(t, patience, "the cluster is up", func() error {
		for _, s := range []*testbed.RedisServer{one, other} {
			if info := fmt.Sprint(s.Do(t, "CLUSTER", "INFO")); !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:2") {
				return errors.New(info)
			}
		}
		return nil
	})
	if _, err := open(t, options(one)).Read(t.Context(), nil); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "ClusterClient") {
		t.Errorf("%v; want ErrDenied and what to do", err)
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{one.Addr()}})
	t.Cleanup(func() { client.Close() })
	if _, err := open(t, Options{Client: client}).Read(t.Context(), nil); err != nil {
		t.Errorf("with the cluster's client: %v", err)
	}
	o := options(one)
	o.DB = 1
	if _, err := open(t, o).Read(t.Context(), nil); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("another database: %v; want ErrDenied", err)
	}
}

// What doctor says of a server changes with its settings.
func TestInspectNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	replica := testbed.StartRedisReplica(t, server)
	o := options(server)
	say := func(o Options, ttl time.Duration) (warnings map[string]bool, all string) {
		list, err := backendOn(t, o).Inspect(t.Context(), ttl, ttl/3)
		testbed.NoError(t, err)
		warnings = map[string]bool{}
		for _, d := range list {
			warnings[d.What] = warnings[d.What] || d.Warning
			all += d.String() + "\n"
		}
		return warnings, all
	}
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "volatile-lru") // which many services have: none of our keys expires
	w, all := say(o, 10*time.Second)
	if w["eviction"] || !w["replication"] || w["TTL"] || w["backlog"] || !strings.Contains(all, "(always)") {
		t.Errorf("of a good server with a replica: %s", all)
	}
	waits := o
	waits.WaitReplicas = 1
	if w, all := say(waits, 20*time.Second); w["replication"] || !w["TTL"] || !strings.Contains(all, "on 1 replicas") {
		t.Errorf("with wait_replicas and a large TTL: %s", all)
	}
	for _, set := range [][2]string{{"maxmemory-policy", "allkeys-lru"}, {"min-replicas-to-write", "1"}, {"min-replicas-max-lag", "3"}, {"repl-backlog-ttl", "2"}, {"appendonly", "no"}} {
		server.Do(t, "CONFIG", "SET", set[0], set[1])
	}
	if w, all := say(o, 10*time.Second); !w["eviction"] || w["replication"] || !w["backlog"] || !strings.Contains(all, "memory only") {
		t.Errorf("of a bad server: %s", all)
	}
	server.Do(t, "CONFIG", "SET", "min-replicas-max-lag", "10")
	if w, all := say(o, 10*time.Second); !w["replication"] {
		t.Errorf("with a lag that is too long: %s", all)
	}
	if w["messages"] || w["connections"] {
		t.Errorf("of a server with Redis's own limits: %s", all)
	}
	connected := strings.Count(fmt.Sprint(server.Do(t, "CLIENT", "LIST")), "id=")
	server.Do(t, "CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0", "maxclients", connected+3)
	if w, all := say(o, 10*time.Second); !w["messages"] || !w["connections"] {
		t.Errorf("of one with lower limits: %s", all)
	}
	server.AddUser(t, "app", "secret", append(strings.Fields(Rights), "~*", "&*")...)
	o.Username, o.Password = "app", "secret"
	if _, all := say(o, time.Second); !strings.Contains(all, "unknown without the right +config|get") {
		t.Errorf("with a member's rights: %s", all)
	}
	replica.Kill(t)
}

// A password that is missing is denied, whatever a server calls it: Redis 7 reads no long command before a login, and says
// so instead of NOAUTH.
func TestAMissingOrWrongPasswordIsDenied(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	server.Do(t, "CONFIG", "SET", "requirepass", "secret")
	for password, hint := range map[string]string{"": "; the server asks for a password", "canary7f3a": "WRONGPASS"} {
		b := backendOn(t, Options{Addresses: []string{server.Addr()}, Password: password})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := b.Observe(ctx, []backend.Lease{{Election: "jobs"}}); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), hint) {
			t.Errorf("with the password %q: %v, want ErrDenied with %q", password, err, hint)
		}
	}
}
