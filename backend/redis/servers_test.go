package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// TestConformanceThroughAFailover runs the cases that a failover interrupts: the master is killed and its
// replica promoted, behind the same address. The replica lacks the last writes at every second failover.
func TestConformanceThroughAFailover(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(map[bool]string{false: "asynchronous", true: "wait_replicas"}[waits], func(t *testing.T) {
			t.Parallel()
			h := harness(func(t testing.TB) conformance.Store { return newReplicated(t, waits) })
			h.Only = func(c conformance.Case) bool { return c.Fault == conformance.FaultFailover }
			conformance.Run(t, h)
		})
	}
}

// newReplicated makes a store on a master with a replica, behind a proxy that leads to the master.
func newReplicated(t testing.TB, waits bool) conformance.Store {
	master := testbed.StartRedis(t, testbed.Options{})
	proxy := master.Proxy(t)
	failover := drivertest.Failovers(t, proxy, master, !waits, testbed.StartRedisReplica)
	o := settled(t, master, options(master))
	o.Addresses, o.MaxTTL = []string{proxy.Addr()}, 3*time.Second
	master.Do(t, "DEL", open(t, o).keys()[0])
	if waits {
		o.WaitReplicas = 1
	}
	settled(t, master, o)
	return conformance.Store{
		Open:   func(t testing.TB) backend.Backend { return backendOn(t, o) },
		Faults: map[string]conformance.Fault{conformance.FaultFailover: failover},
	}
}

// A server that keeps nothing is killed and comes back empty, while a leader still trusts its lease. A process
// that starts then has never seen the lease, and waits all the same.
func TestAnEmptyServerThatHasJustStartedMayHaveLostALease(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"restarted", "restarted, and its clock is set forward", "a promoted replica"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			const ttl, greatest = 8 * time.Second, 10 * time.Second
			server, other := startOff(t, -2*time.Hour, "--appendonly", "no"), startOff(t, -2*time.Hour, "--appendonly", "no")
			other.StopReplication(t)
			proxy := server.Proxy(t)
			o := options(server)
			o.MaxTTL = greatest
			settled(t, server, o)
			o.Addresses = []string{proxy.Addr()}
			a := join(t, "a", ttl, o)
			lead, err := a.Campaign(t.Context())
			testbed.NoError(t, err)
			if what == "a promoted replica" {
				awaitWork(t, other, greatest+4*time.Second)
			}
			proxy.Cut(true)
			server.Kill(t)
			if what == "a promoted replica" {
				other.Promote(t)
				server = other
			} else {
				server.Start(t)
			}
			if what == "restarted, and its clock is set forward" {
				server.Step(t, 2*time.Hour)
			}
			restarted := time.Now()
			o.Addresses = []string{server.Addr()}
			b := join(t, "b", ttl, o)
			testbed.NoError(t, b.Lead(nil))
			drivertest.LeadsAlone(t, b, a)
			if took := time.Since(restarted); took < greatest {
				t.Errorf("B leads %v after the restart, before the greatest TTL, %v, has passed", took, greatest)
			}
			if now := b.Leadership(); now != nil && now.Term <= lead.Term {
				t.Errorf("term %d after %d, which was lost", now.Term, lead.Term)
			}
		})
	}
}

// A server that was a replica meanwhile has the same process, and perhaps older data. That is another epoch,
// and a change that was meant for the former one is refused. Nor do versions come again.
func TestAServerThatWasAReplicaMeanwhileIsAnotherOne(t *testing.T) {
	t.Parallel()
	first := testbed.StartRedis(t, testbed.Options{})
	second := testbed.StartRedisReplica(t, first)
	o := options(first)
	d, late := open(t, o), open(t, o) // late reads nothing
	v := drivertest.Read(t, d, recordKey("jobs"))
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
	kept := drivertest.Read(t, d, recordKey("jobs"))
	second.CatchUp(t, first)
	second.StopReplication(t)
	drivertest.MustPut(t, d, &kept, &lease.Record{Election: "jobs", Term: 2})
	lost := drivertest.Read(t, d, recordKey("jobs"))
	second.Promote(t) // nobody asks it
	first.Follow(t, second)
	if _, err := drivertest.Put(t, d, &lost, &lease.Record{Election: "jobs", Term: 3}); !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, lease.ErrEpoch) {
		t.Errorf("a change on a replica: %v, want ErrUnavailable", err)
	}
	if v, err := open(t, o).Read(t.Context(), []lease.Key{recordKey("jobs")}); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a reading of a master that has become a replica: %+v, %v, want ErrUnavailable", v, err)
	}
	first.Promote(t)
	for _, d := range []*driver{late, d} { // d has seen a greater number
		for _, before := range []*lease.View{&kept, &lost} {
			if _, err := drivertest.Put(t, d, before, &lease.Record{Election: "jobs", Term: 9}); !errors.Is(err, lease.ErrEpoch) {
				t.Errorf("a change that was meant for the former epoch: %v, want ErrEpoch", err)
			}
		}
	}
	now := drivertest.Read(t, d, recordKey("jobs"))
	if r := now.Items[0].Value.(*lease.Record); now.Epoch == v.Epoch || r.Term != 1 {
		t.Errorf("epoch %s after %s, record %+v", now.Epoch, v.Epoch, r)
	}
	drivertest.MustPut(t, d, &now, &lease.Record{Election: "jobs", Term: 2}) // the text that was lost
	if again := drivertest.Read(t, d, recordKey("jobs")); again.Items[0].Version == lost.Items[0].Version {
		t.Errorf("version %s comes again", lost.Items[0].Version)
	}
}

// A master takes another replication id when its first replica connects. Its data stay, and so do its epoch and its leaders.
func TestTheFirstReplicaDeposesNobody(t *testing.T) {
	t.Parallel()
	master := testbed.StartRedis(t, testbed.Options{})
	o := options(master)
	d := open(t, o)
	before, id := drivertest.Read(t, d), master.Info(t, "master_replid")
	replica := testbed.StartRedisReplica(t, master)
	if now := master.Info(t, "master_replid"); now == id {
		t.Fatal("the replication id has not changed: this test tests nothing")
	}
	if now := drivertest.Read(t, d); now.Epoch != before.Epoch {
		t.Errorf("epoch %s after %s", now.Epoch, before.Epoch)
	}
	replica.CatchUp(t, master)
	replica.Promote(t) // also the promoted one has another
	o.Addresses = []string{replica.Addr()}
	if now := drivertest.Read(t, open(t, o)); now.Epoch == before.Epoch {
		t.Errorf("a promoted replica has the epoch of its master, %s", now.Epoch)
	}
}

// A restart is another epoch, whatever the server has kept.
func TestARestartIsAnotherEpoch(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	d := open(t, options(server))
	v := drivertest.Read(t, d)
	for term := range uint64(3) {
		before := drivertest.Read(t, d, recordKey("jobs"))
		drivertest.MustPut(t, d, &before, &lease.Record{Election: "jobs", Term: term + 1})
		server.Kill(t)
		server.Start(t)
		if _, err := drivertest.Put(t, d, &before, &lease.Record{Election: "jobs", Term: 9}); !errors.Is(err, lease.ErrEpoch) {
			t.Errorf("a change of the former epoch: %v, want ErrEpoch", err)
		}
		now := drivertest.Read(t, d, recordKey("jobs"))
		if r, ok := now.Items[0].Value.(*lease.Record); !ok || r.Term != term+1 || now.Epoch == v.Epoch {
			t.Fatalf("after a kill with appendfsync always: %+v", now)
		}
		v = now
	}
}

// A replica answers, but not as the store.
func TestAReplicaIsNotTheStore(t *testing.T) {
	t.Parallel()
	master := testbed.StartRedis(t, testbed.Options{})
	o := options(master)
	drivertest.Read(t, open(t, o))
	replica := testbed.StartRedisReplica(t, master)
	o.Addresses = []string{replica.Addr()}
	_, err := open(t, o).Read(t.Context(), []lease.Key{recordKey("jobs")})
	if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) {
		t.Errorf("a reading of a replica: %v; want ErrUnavailable", err)
	}
}

// A master has become a replica that answers nothing until it is in step. Who is connected to it goes where the name leads
// now, and does not wait until the connection is old.
func TestAMasterThatBecomesAReplicaIsLeft(t *testing.T) {
	t.Parallel()
	before, now := testbed.StartRedis(t, testbed.Options{}), testbed.StartRedis(t, testbed.Options{})
	name := before.Proxy(t)
	o := options(before)
	o.Addresses = []string{name.Addr()}
	d := open(t, o)
	drivertest.Read(t, d)
	before.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
	before.StopReplication(t)
	if _, err := d.Read(t.Context(), nil); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "MASTERDOWN") {
		t.Errorf("a reading of the old master: %v; want MASTERDOWN", err)
	}
	name.SetTarget(now.Addr())
	if _, err := d.Read(t.Context(), nil); err != nil {
		t.Errorf("the name leads to another master: %v", err)
	}
	drivertest.Read(t, d)
	now.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1") // it has lost its replica, which another one takes as the master
	name.SetTarget(testbed.StartRedis(t, testbed.Options{}).Addr())
	if first, next := d.tryOut(t.Context()), d.tryOut(t.Context()); first == nil || next != nil {
		t.Errorf("the name leads away from a master without replicas: %v, then %v", first, next)
	}
}

// The old master is cut off from its replica, which is promoted, and goes on answering its clients. With
// wait_replicas it confirms nothing, so its leader's lease ends before another process leads.
func TestAnOldMasterWithoutReplicasConfirmsNothing(t *testing.T) {
	t.Parallel()
	const ttl, greatest = 6 * time.Second, 9 * time.Second
	master := testbed.StartRedis(t, testbed.Options{})
	replica := testbed.StartRedisReplica(t, master)
	o := options(master)
	o.MaxTTL = greatest
	settled(t, master, o)
	o.WaitReplicas = 1
	a := join(t, "a", ttl, o)
	_, err := a.Campaign(t.Context())
	testbed.NoError(t, err)
	replica.Promote(t)
	third := testbed.StartRedisReplica(t, replica)
	o.Addresses = []string{replica.Addr()}
	b := join(t, "b", ttl, o)
	testbed.NoError(t, b.Lead(nil))
	drivertest.LeadsAlone(t, b, a)
	if third.Info(t, "role") != "slave" || master.Info(t, "role") != "master" {
		t.Error("the old master does not answer as a master: this test tests nothing")
	}
	d := open(t, Options{Addresses: []string{master.Addr()}, Prefix: o.Prefix, MaxTTL: greatest, WaitReplicas: 1})
	v := drivertest.Read(t, d, recordKey("other"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	w, err := d.Write(ctx, v.Epoch, 0, []lease.Change{{Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: "other", Term: 1}}}}}, nil)
	if !errors.Is(err, backend.ErrUnavailable) || len(w.Results) > 0 && w.Results[0].Outcome != backend.Unknown {
		t.Errorf("a change that reached no replica: %+v, %v; want it unknown", w, err)
	}
}

// The same with min-replicas-to-write: the old master stops confirming when its replica has been silent for the lag.
func TestAnOldMasterWithMinReplicasStopsInTime(t *testing.T) {
	t.Parallel()
	const ttl, lag = 3 * time.Second, 2
	const greatest = ttl + (lag+2)*time.Second // as docs/redis.md says
	master := testbed.StartRedis(t, testbed.Options{Args: []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", fmt.Sprint(lag)}})
	replica := testbed.StartRedisReplica(t, master)
	line := master.Proxy(t)
	host, port, _ := strings.Cut(line.Addr(), ":")
	replica.Do(t, "REPLICAOF", host, port)
	replica.CatchUp(t, master)
	o := options(master)
	o.MaxTTL = greatest
	testbed.Eventually(t, patience, "the master writes", func() error {
		return master.Admin().Set(t.Context(), "x", "y", 0).Err()
	})
	settled(t, master, o)
	a := join(t, "a", ttl, o)
	_, err := a.Campaign(t.Context())
	testbed.NoError(t, err)
	replica.CatchUp(t, master)
	line.Cut(true) // the connection stays open, and nothing passes
	replica.Promote(t)
	o.Addresses = []string{replica.Addr()}
	b := join(t, "b", ttl, o)
	testbed.NoError(t, b.Lead(nil))
	drivertest.LeadsAlone(t, b, a)
	if role, why := master.Info(t, "role"), a.Current(); role != "master" || !strings.Contains(fmt.Sprint(why), "NOREPLICAS") {
		t.Errorf("the old master is a %s, and A says %v: this test tests nothing", role, why)
	}
}

// Sentinels replace a master that was killed, and a member finds the new one by them, also where all speak only TLS.
func TestSentinelsFindTheMaster(t *testing.T) {
	for what, tls := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			sentinelsFindTheMaster(t, tls)
		})
	}
}

func sentinelsFindTheMaster(t *testing.T, tls bool) {
	const ttl, greatest = 3 * time.Second, 5 * time.Second
	master := testbed.StartRedis(t, testbed.Options{TLS: tls})
	replica := testbed.StartRedisReplica(t, master)
	o := options(master)
	o.MaxTTL = greatest
	if tls {
		o.CAFile = master.CAFile()
	}
	settled(t, master, o)
	o.Addresses, o.Master = nil, "mymaster"
	for i, s := range startSentinels(t, master) {
		o.Addresses = append(o.Addresses, s.Options().Addr)
		testbed.NoError(t, s.Do(t.Context(), "ACL", "SETUSER", "watcher", "reset", "resetchannels", "on", ">canary-of-sentinels",
			"allchannels", "+hello", "+subscribe", "+sentinel|get-master-addr-by-name").Err())
		if i == 0 { // it was started with the configuration of long ago, and hears of no other master
			testbed.NoError(t, s.Do(t.Context(), "SENTINEL", "REMOVE", "mymaster").Err())
			testbed.NoError(t, s.Do(t.Context(), "SENTINEL", "MONITOR", "mymaster", "127.0.0.1", "1", "2").Err())
		}
	}
	for what, refused := range map[string]struct{ master, password, want string }{
		"a wrong password for the Sentinels": {"mymaster", "canary-wrong", "sentinel_username"},
		"a name that they do not know":       {"another", "canary-of-sentinels", "correct master"},
	} {
		o.Master, o.SentinelUsername, o.SentinelPassword = refused.master, "watcher", refused.password
		_, err := open(t, o).Read(t.Context(), nil)
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), refused.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("with %s: %v; want ErrDenied and %q", what, err, refused.want)
		}
	}
	o.Master, o.SentinelPassword = "mymaster", "canary-of-sentinels"
	for range 20 {
		c := open(t, o).newClient(false)
		testbed.NoError(t, c.Ping(t.Context()).Err())
		c.Close()
	}
	a, b := join(t, "a", ttl, o), join(t, "b", ttl, o)
	lead, err := a.Campaign(t.Context())
	testbed.NoError(t, err)
	testbed.NoError(t, b.Lead(nil))
	replica.StopReplication(t) // its last writes are lost
	replica.Do(t, "CONFIG", "SET", "replica-priority", "1")
	master.Kill(t)
	drivertest.LeadsAlone(t, b, a)
	if now := b.Leadership(); now != nil && now.Term <= lead.Term {
		t.Errorf("term %d after %d", now.Term, lead.Term)
	}
	if replica.Info(t, "role") != "master" {
		t.Error("the replica is not the master")
	}
}

// An old master that Sentinels have replaced may go on answering: here it obeys no command to become a replica. Whoever is
// connected to it learns from the Sentinels, and is led to the new one.
func TestAMasterThatSentinelsHaveReplacedIsLeft(t *testing.T) {
	t.Parallel()
	master := testbed.StartRedis(t, testbed.Options{Args: []string{"--rename-command", "SLAVEOF", ""}})
	replica := testbed.StartRedisReplica(t, master)
	o := options(master)
	o.MaxTTL = 3 * time.Second
	settled(t, master, o)
	master.Do(t, "CLIENT", "KILL", "TYPE", "normal") // that of settled
	all := startSentinels(t, master)
	o.Addresses, o.Master = nil, "mymaster"
	for _, s := range all {
		o.Addresses = append(o.Addresses, s.Options().Addr)
	}
	_, err := join(t, "a", time.Second, o).Campaign(t.Context())
	testbed.NoError(t, err)
	testbed.NoError(t, all[0].Do(t.Context(), "SENTINEL", "FAILOVER", "mymaster").Err())
	testbed.Eventually(t, 20*time.Second, "all have left the old master, long before their connections are replaced", func() error {
		before, now := master.Do(t, "CLIENT", "LIST").(string), replica.Do(t, "CLIENT", "LIST").(string)
		if strings.Contains(before, "go-election/") || !strings.Contains(now, "go-election/") {
			return fmt.Errorf("clients of the old master: %s\nand of the new one: %s", before, now)
		}
		return nil
	})
	if master.Info(t, "role") != "master" {
		t.Error("the old master has become a replica: this test tests nothing")
	}
}

// startSentinels starts three Sentinels that watch a master by the name "mymaster", and replace it when it has not
// answered for a second. They speak TLS if the master does.
func startSentinels(t *testing.T, master *testbed.RedisServer) (all []*goredis.Client) {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr())
	for range 3 {
		s := testbed.StartProgram(t, "redis-server", "redis-server", func(program string, d *testbed.Daemon) []string {
			dir := d.Dir()
			config := filepath.Join(dir, "sentinel.conf")
			_, own, _ := net.SplitHostPort(d.Addr())
			text := fmt.Sprintf("bind 127.0.0.1\ndir %s\nport %s\n", dir, own)
			if ca := master.CAFile(); ca != "" {
				files := master.Dir()
				text = fmt.Sprintf("bind 127.0.0.1\ndir %s\nport 0\ntls-port %s\ntls-auth-clients optional\ntls-replication yes\ntls-ca-cert-file %s\ntls-cert-file %s\ntls-key-file %s\n",
					dir, own, ca, filepath.Join(files, "server-cert.pem"), filepath.Join(files, "server-key.pem"))
			}
			text += fmt.Sprintf("sentinel monitor mymaster %s %s 2\nsentinel down-after-milliseconds mymaster 1000\nsentinel failover-timeout mymaster 5000\n", host, port)
			testbed.NoError(t, os.WriteFile(config, []byte(text), 0o600))
			return []string{program, config, "--sentinel"}
		})
		client := ownClient(t, &goredis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true, TLSConfig: master.TLSConfig()})
		all = append(all, client)
	}
	testbed.Eventually(t, patience, "the Sentinels know each other and the replicas", func() error {
		for _, s := range all {
			m, err := s.Do(t.Context(), "SENTINEL", "MASTER", "mymaster").Slice()
			facts := fmt.Sprint(m)
			if err == nil && (!strings.Contains(facts, "num-other-sentinels 2") || strings.Contains(facts, "num-slaves 0")) {
				err = errors.New(facts)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return all
}

// The link of the master to its replica is silent, and the master still lists it. A change is unknown then. A second copy
// of it, which is refused, is written as well: newer servers let WAIT count from what its connection has written.
func TestAChangeThatReachesNoReplicaIsUnknown(t *testing.T) {
	t.Parallel()
	master := testbed.StartRedis(t, testbed.Options{})
	replica := testbed.StartRedisReplica(t, master)
	line := master.Proxy(t)
	host, port, _ := strings.Cut(line.Addr(), ":")
	replica.Do(t, "REPLICAOF", host, port)
	replica.CatchUp(t, master)
	o := options(master)
	o.WaitReplicas = 1
	d := open(t, o)
	v := drivertest.Read(t, d, recordKey("other"))
	change := []lease.Change{{Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: "other", Term: 1}}}}}
	write := func() (backend.Outcome, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		w, err := d.Write(ctx, v.Epoch, 0, change, nil)
		if err != nil || len(w.Results) == 0 {
			return backend.Unknown, err
		}
		return w.Results[0].Outcome, nil
	}
	written := func() string {
		_, rest, _ := strings.Cut(fmt.Sprint(master.Do(t, "INFO", "commandstats")), "cmdstat_hset:calls=")
		calls, _, _ := strings.Cut(rest, ",")
		return calls
	}

	if got, err := write(); got != backend.Granted {
		t.Fatalf("a change is %v, %v", got, err)
	}
	before := written()
	if got, err := write(); got != backend.Refused || written() == before {
		t.Errorf("a second copy is %v, %v, after %s and %s calls of HSET; want it refused, and written", got, err, before, written())
	}
	line.Cut(true)
	if got, err := write(); got != backend.Unknown || !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("what reaches no replica is %v, %v; want it unknown", got, err)
	}
}
