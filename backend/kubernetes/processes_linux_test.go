package kubernetes

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// The test binary is also the program of the members that it starts.
const clientGoArg, memberArg = "GO_ELECTION_TEST_CLIENT_GO", "GO_ELECTION_TEST_KUBERNETES_MEMBER"

func TestMain(m *testing.M) {
	config.RunGuard()
	if arg := os.Getenv(clientGoArg); arg != "" {
		clientGoMain(arg)
	}
	if arg := os.Getenv(memberArg); arg != "" {
		memberMain(arg)
	}
	os.Exit(m.Run())
}

// A part is the configuration of a member of either kind.
type part struct {
	Kubeconfig, Namespace, Election, ID string

	// Of a member of this module: its TTL, whether it has a guard, and its stage in a migration to MySQL, or empty.
	TTL   time.Duration
	Guard bool
	Stage migration.Stage
	DSN   string
}

// memberMain is the program of a member of this module.
func memberMain(arg string) {
	var p part
	err := json.Unmarshal([]byte(arg), &p)
	var store backend.Backend
	if err == nil {
		store, err = Open(Options{Kubeconfig: p.Kubeconfig, Namespace: p.Namespace})
	}
	if err == nil && p.Stage != "" {
		o := migration.Options{From: store, Stage: p.Stage}
		if o.To, err = mysql.Open(mysql.Options{DSN: p.DSN}); err == nil {
			store, err = migration.New(o)
		}
	}
	o := election.Options{ID: p.ID, TTL: p.TTL}
	if err == nil && p.Guard {
		text := fmt.Sprintf("backend: kubernetes\nkubernetes: {kubeconfig: %q, namespace: %s}\n", p.Kubeconfig, p.Namespace)
		var c *config.Config
		if c, err = config.Parse("test.yaml", []byte(text), config.Options{Environ: []string{}}); err == nil {
			o.Guard, err = c.StartGuard()
		}
	}
	testbed.PlayMember(store, err, o, p.Election)
}

// clientGoMain is the program of a member of client-go, as its own example has it: RunOrDie in a loop.
// Its leadership is the context of OnStartedLeading. ReleaseOnCancel is false, as the pages demand of a
// fleet of both kinds: a leader that was stopped may release its successor's lease.
func clientGoMain(arg string) {
	var p part
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	flags.Set("logtostderr", "false")
	flags.Set("stderrthreshold", "FATAL")
	err := json.Unmarshal([]byte(arg), &p)
	var client *typed.CoordinationV1Client
	if err == nil {
		config, loaded := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
		if err = loaded; err == nil {
			client, err = typed.NewForConfig(config)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
	var leads atomic.Bool
	var follows atomic.Value
	follows.Store("")
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta: meta.ObjectMeta{Name: p.Election, Namespace: p.Namespace}, Client: client, LockConfig: resourcelock.ResourceLockConfig{Identity: p.ID},
				},
				LeaseDuration: 4 * time.Second, RenewDeadline: 2500 * time.Millisecond, RetryPeriod: 500 * time.Millisecond,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) {
						leads.Store(true)
						context.AfterFunc(ctx, func() { leads.Store(false) })
					},
					OnStoppedLeading: func() { leads.Store(false) },
					OnNewLeader:      func(id string) { follows.Store(id) },
				},
			})
		}
	})
	testbed.Say(leads.Load, func() string { return follows.Load().(string) })
	leads.Store(false)
	fmt.Println("not leader")
	cancel()
	done.Wait()
	os.Exit(0)
}

// A fleet is one election with members of both kinds.
type fleet struct {
	*testbed.Fleet
	*lab
	t        *testing.T
	election string
	dsn      string // of the MySQL to which it moves
}

func newFleet(t *testing.T) *fleet {
	l := newLab(t, testbed.SharedKubernetes(t))
	return &fleet{testbed.NewFleet(t), l, t, "controller", ""}
}

// theirs starts a member of client-go, and ours one of this module.
func (f *fleet) theirs(id string) *testbed.Member {
	return f.Program(id, false, clientGoArg, part{Kubeconfig: f.file, Namespace: f.namespace, Election: f.election, ID: id})
}

func (f *fleet) ours(id string) *testbed.Member { return f.at(id, "") }

// at starts a member of this module at a stage of the migration to MySQL.
func (f *fleet) at(id, stage string) *testbed.Member {
	return f.member(part{ID: id, TTL: 4 * time.Second, Stage: migration.Stage(stage), DSN: f.dsn})
}

func (f *fleet) member(p part) *testbed.Member {
	p.Kubeconfig, p.Namespace, p.Election = f.file, f.namespace, f.election
	return f.Program(p.ID, true, memberArg, p)
}

// A rolling update takes an election from client-go to this module, and another one takes it back.
func TestARollingUpdateMovesAFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	old := []*testbed.Member{f.theirs("theirs-1")}
	f.Leads(old[0])
	old = append(old, f.theirs("theirs-2"))
	var members []*testbed.Member
	for i := range old {
		members = append(members, f.ours(fmt.Sprint("ours-", i+1)))
		members[i].Follows("")
		old[i].Resign()
	}
	f.Leads(members...)
	for i := range members {
		back := f.theirs(fmt.Sprint("theirs-", i+3))
		back.Follows("")
		old[i] = back
	}
	for _, m := range members {
		m.Resign()
	}
	f.Leads(old...)
	f.OneLeaderAtMost()
}

// Members of both kinds are killed, stopped and asked to end again and again.
func TestAMixedFleetUnderKillsHasOneLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	kinds := []func(string) *testbed.Member{f.theirs, f.ours}
	members := []*testbed.Member{f.ours("ours-0"), f.theirs("theirs-0"), f.ours("ours-00"), f.theirs("theirs-00")}
	for i := range 16 {
		leader := f.Leads(members...)
		for n, m := range members {
			if m != leader {
				continue
			}
			switch i % 4 {
			case 0, 1:
				m.Kill()
			case 2:
				m.Resign()
			case 3:
				m.Stop()
				rest := append(append([]*testbed.Member{}, members[:n]...), members[n+1:]...)
				f.Leads(rest...)
				m.Continue()
				m.FindsOut()
				m.Resign()
			}
			kind := i / 2 % 2
			members[n] = kinds[kind](fmt.Sprint([]string{"theirs-", "ours-"}[kind], i+1))
		}
	}
	f.OneLeaderAtMost()
}

// TestTheRoadFromClientGoToMySQLAndBack moves a fleet to MySQL and back while members are killed: see [drivertest.Road].
func TestTheRoadFromClientGoToMySQLAndBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	db := testbed.Shared(t, testbed.MariaDB).Database(t)
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, db.Admin), "", ""))
	f.dsn = db.User.FormatDSN()
	reader := f.node(t, "reader")
	road := drivertest.Road{Fleet: f.Fleet, Theirs: f.theirs, Waits: func(m *testbed.Member) { m.Follows("") }, Ours: f.at}
	road.Moved = func() (string, error) { return reader.Sees(f.election).MovedTo, nil }
	road.ThereAndBack(t)
}

// After kill -9 of a leader with a guard, the next one leads long before the TTL has passed.
func TestAKilledLeaderWithAGuardIsSucceededAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const ttl = 20 * time.Second
	start := func(id string) *testbed.Member { return f.member(part{ID: id, TTL: ttl, Guard: true}) }
	leader := start("0")
	f.Leads(leader)
	var took []time.Duration
	for i := range 3 {
		next := start(fmt.Sprint(i + 1))
		next.Follows(leader.ID)
		killed := time.Now()
		leader.Kill()
		f.Leads(next)
		took = append(took, next.Led()[0].From.Sub(killed).Round(time.Millisecond))
		leader = next
	}
	t.Log("from kill -9 until the next leads:", took)
	for _, d := range took {
		if d > ttl/2 {
			t.Errorf("it took %v, with a TTL of %v", d, ttl)
		}
	}
	f.NeverTwo()
}
