package migration_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/curator"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	realTTL     = 3 * time.Second
	javaSession = 12 * time.Second // Curator keeps no deadline: a busy machine must never stop it for so long
	patience    = 3 * time.Minute  // a kill takes a few seconds of it
)

// A javaFleet has real Java processes on ZooKeeper, and Go managers that migrate from it to
// MySQL, on real servers. It records on one clock when each member believes to lead.
type javaFleet struct {
	t       *testing.T
	servers []string
	path    string // of Curator's queue
	root    string
	db      *testbed.Database
	admin   *zk.Conn
	began   time.Time
	next    int
	stop    func()

	mu      sync.Mutex
	members []*member // including those that have ended
}

// A member is one process: a Java process, or a manager in this one.
type member struct {
	id    string
	stage migration.Stage // "": in Java
	java  *testbed.Member

	manager *election.Manager
	*election.Election
	wires []*conformance.Wire

	// Guarded by the fleet's mutex.
	gone  bool
	leads bool
	spans []testbed.Span
}

func newJavaFleet(t *testing.T) *javaFleet {
	w := &javaFleet{t: t, began: time.Now().Round(0), servers: testbed.SharedZooKeeper(t), root: "/road" + string(backend.NewNonce()[:8]), db: testbed.Shared(t, testbed.MariaDB).Database(t)}
	w.path = w.root + "-java/latch"
	if err := mysql.CreateTables(t.Context(), testbed.OpenDB(t, w.db.Admin), "", ""); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.admin, _, err = zk.Connect(w.servers, 10*time.Second, zk.WithLogInfo(false)); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-tick.C:
				w.ask()
			case <-done:
				return
			}
		}
	}()
	w.stop = sync.OnceFunc(func() { close(done); <-ended })
	t.Cleanup(func() { w.stop(); w.admin.Close() })
	return w
}

// ask asks all managers whether they lead. A recorded span lies between two such answers, so it
// is never longer than the leadership.
func (w *javaFleet) ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		if m.java != nil || m.gone {
			continue
		}
		before := time.Now().Round(0)
		leads := m.Leading()
		if after := time.Now().Round(0); leads && !m.leads {
			m.spans = append(m.spans, testbed.Span{From: after, To: after})
		} else if last := len(m.spans) - 1; leads && before.After(m.spans[last].To) {
			m.spans[last].To = before
		}
		m.leads = leads
	}
}

// start starts a member at a stage. "" is a Java process.
func (w *javaFleet) start(stage migration.Stage, unsealed bool) *member {
	w.t.Helper()
	if stage == "" {
		return w.startJava(1)[0]
	}
	m := w.member(stage)
	w.manage(m, unsealed)
	w.add(m)
	return m
}

// startJava starts Java processes at the same time, because each takes seconds.
func (w *javaFleet) startJava(n int) (all []*member) {
	w.t.Helper()
	for range n {
		m := w.member("")
		m.java = testbed.StartJavaMember(w.t, testbed.JavaOptions{Kind: "latch", Server: w.servers[0], Path: w.path, ID: m.id, Session: javaSession})
		all = append(all, m)
	}
	for _, m := range all {
		m.java.Says("started")
		w.add(m)
	}
	return all
}

func (w *javaFleet) member(stage migration.Stage) *member {
	w.next++
	return &member{stage: stage, id: fmt.Sprintf("%s%d", cmp.Or(stage, "java"), w.next)}
}

func (w *javaFleet) add(m *member) {
	w.log("%s starts", m.id)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = append(w.members, m)
}

func (w *javaFleet) log(format string, args ...any) {
	w.t.Helper()
	w.t.Logf("%7.2fs  %s", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

func (w *javaFleet) manage(m *member, unsealed bool) {
	t := w.t
	old, err := curator.Open(curator.Options{ZooKeeper: zookeeper.Options{Servers: w.servers, Root: w.root}, Paths: map[string]string{"jobs": w.path},
		Tick: testbed.ZooKeeperTick, Session: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := mysql.Open(mysql.Options{Config: w.db.User})
	if err != nil {
		t.Fatal(err)
	}
	m.wires = []*conformance.Wire{conformance.Wrap(old), conformance.Wrap(fresh)}
	b, err := migration.New(migration.Options{From: m.wires[0], To: m.wires[1], Stage: m.stage, Unsealed: unsealed})
	if err != nil {
		t.Fatal(err)
	}
	if m.manager, err = election.New(b, election.Options{ID: m.id, TTL: realTTL}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.end(m) })
	if m.Election, err = m.manager.Join("jobs"); err != nil {
		t.Fatal(err)
	}
	if err := m.Lead(nil); err != nil {
		t.Fatal(err)
	}
}

// end ends a member in an orderly way.
func (w *javaFleet) end(m *member) {
	if m.java != nil {
		m.java.Resign()
		return
	}
	limit := 10 * time.Second
	w.mu.Lock()
	if m.gone { // it was killed, so its calls do not arrive
		limit = 0
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	m.manager.Close(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	m.gone, m.leads = true, false
}

// kill ends a member as kill -9 does. From then on, what a manager in this process believes does
// not count, and its calls do not arrive.
func (w *javaFleet) kill(m *member) {
	w.log("kill -9 %s", m.id)
	if m.java != nil {
		m.java.Kill()
		return
	}
	w.mu.Lock()
	m.gone, m.leads = true, false
	w.mu.Unlock()
	for _, wire := range m.wires {
		wire.Cut(true)
	}
}

// leading reports whether m leads, and has led for a while.
func (w *javaFleet) leading(m *member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	leads, spans := m.leads && !m.gone, m.spans
	if m.java != nil {
		leads, spans = m.java.Leads(), m.java.Led()
	}
	return leads && len(spans) > 0 && spans[len(spans)-1].To.Sub(spans[len(spans)-1].From) > 300*time.Millisecond
}

// led waits until one of these members leads, and returns it.
func (w *javaFleet) led(among []*member, what string) (leader *member) {
	w.t.Helper()
	began := time.Now()
	testbed.Eventually(w.t, patience, "a leader "+what, func() error {
		var states []string
		for _, m := range among {
			if w.leading(m) {
				leader = m
				return nil
			}
			if m.java == nil {
				states = append(states, fmt.Sprintf("%s: %v (%v)", m.id, m.Current(), m.Current().Err))
			}
		}
		nodes, _, err := w.admin.Children(w.path)
		return fmt.Errorf("no leader: %s; in the queue: %q (%v)", strings.Join(states, "; "), nodes, err)
	})
	w.log("%s leads %s, after %.1fs", leader.id, what, time.Since(began).Seconds())
	return leader
}

// sealed reports whether Curator's queue has a seal.
func (w *javaFleet) sealed() (there bool) {
	w.t.Helper()
	testbed.Eventually(w.t, patience, "an answer of ZooKeeper", func() (err error) { // on a busy machine the session may be lost
		there, _, err = w.admin.Exists(w.path + "/+moved")
		return err
	})
	return there
}

// A belief is a span during which a member has believed to lead.
type belief struct {
	testbed.Span
	*member
}

// check returns the history of all beliefs in order, how often a member of each stage has led,
// and an error that describes the first overlap of two beliefs.
func (w *javaFleet) check() (history string, led map[migration.Stage]int, overlap error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []belief
	led = map[migration.Stage]int{}
	for _, m := range w.members {
		spans := m.spans
		if m.java != nil {
			spans = m.java.Led()
		}
		for _, s := range spans {
			all = append(all, belief{s, m})
		}
		led[m.stage] += len(spans)
	}
	slices.SortFunc(all, func(a, b belief) int { return a.From.Compare(b.From) })
	var last belief // the belief so far that ended last
	for _, b := range all {
		history += fmt.Sprintf("\n%8.3fs – %8.3fs  %s", b.From.Sub(w.began).Seconds(), b.To.Sub(w.began).Seconds(), b.id)
		if last.member != nil && last.member != b.member && last.To.After(b.From) && overlap == nil {
			overlap = fmt.Errorf("two leaders: %s led for %v longer after %s had begun", last.id, last.To.Sub(b.From), b.id)
		}
		if b.To.After(last.To) {
			last = b
		}
	}
	return history, led, overlap
}

// Three members of a LeaderLatch, real Java processes, migrate to Go on MySQL, deployment by
// deployment, and back, while members are killed. At every instant at most one of them
// believes to lead. A Java process that was stopped before the migration wakes up late, and
// does not lead.
func TestTheRoadFromCuratorToMySQLAndBack(t *testing.T) {
	t.Parallel()
	w := newJavaFleet(t)
	seed := rand.Uint64()
	w.log("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	fleet := w.startJava(4)
	leader := w.led(fleet, "in Java")
	leader.java.Who(4) // all are in the queue
	straggler := fleet[slices.IndexFunc(fleet, func(m *member) bool { return m != leader })]
	fleet = slices.DeleteFunc(fleet, func(m *member) bool { return m == straggler })
	w.log("%s is stopped", straggler.id)
	straggler.java.Stop()

	for _, stage := range []migration.Stage{migration.Both, migration.To, migration.Both, ""} {
		victim := rnd.IntN(3) // at each stage one is killed, and two end in an orderly way
		for i := range 3 {
			m := fleet[0]
			fleet = append(fleet[1:], w.start(stage, false))
			if i == victim {
				w.kill(m)
			} else {
				w.end(m)
			}
		}
		among := fleet
		if stage == "" { // the straggler is one of them again
			among = append(slices.Clone(fleet), straggler)
		}
		leader = w.led(among, fmt.Sprintf("when all are at stage %q", stage))
		if sealed := w.sealed(); sealed != (stage == migration.To) {
			t.Errorf("at stage %q: sealed: %v", stage, sealed)
		}
		if stage != migration.To {
			continue
		}
		w.log("%s wakes up", straggler.id)
		straggler.java.Continue()
		testbed.Eventually(t, patience, "the straggler in the queue, behind the seal", func() error {
			if nodes, _, err := w.admin.Children(w.path); err != nil || len(nodes) != 2 {
				return fmt.Errorf("%q, %v", nodes, err)
			}
			return nil
		})
		w.kill(leader)
		fleet = slices.DeleteFunc(fleet, func(m *member) bool { return m == leader })
		w.led(fleet, "at stage to, after the leader was killed")
		fleet = append(fleet, w.start(stage, false))
		if led := straggler.java.Led(); len(led) > 0 {
			t.Errorf("a straggler in Java has led a sealed election: %v", led)
		}
	}
	w.end(straggler)
	for _, m := range fleet {
		w.end(m)
	}
	w.stop()
	w.checkAllStages()
}

// checkAllStages checks that there was a leader at each stage, and never two.
func (w *javaFleet) checkAllStages() {
	t := w.t
	history, led, overlap := w.check()
	t.Logf("who believed to lead, by one clock:%s", history)
	if overlap != nil {
		t.Errorf("S1: %v", overlap)
	}
	for _, stage := range []migration.Stage{"", migration.Both, migration.To} {
		if led[stage] == 0 {
			t.Errorf("there was no leader at stage %q: this run shows little", stage)
		}
	}
	if !t.Failed() {
		t.Logf("at every instant at most one of %d processes believed to lead", len(w.members))
	}
}

// A jump goes from Java on ZooKeeper to stage to at once. Without the seal there are two
// leaders, and this test finds them. With it the Go member waits for the Java leader, and
// after that no Java member can lead.
func TestAJumpFromCuratorToMySQL(t *testing.T) {
	t.Parallel()
	for _, unsealed := range []bool{true, false} {
		t.Run(fmt.Sprintf("unsealed=%v", unsealed), func(t *testing.T) {
			t.Parallel()
			w := newJavaFleet(t)
			fleet := w.startJava(2)
			java := w.led(fleet, "in Java")
			other := fleet[slices.IndexFunc(fleet, func(m *member) bool { return m != java })]
			jumper := w.start(migration.To, unsealed)
			if unsealed {
				testbed.Eventually(t, patience, "two leaders without a seal", func() error {
					if _, _, overlap := w.check(); overlap == nil {
						return errors.New("there were never two leaders")
					}
					return nil
				})
				return
			}
			testbed.Eventually(t, patience, "the Go member to name the Java leader", func() error {
				if leader, _, ok := jumper.Leader(); !ok || leader.ID != java.id {
					return fmt.Errorf("it names %v", leader)
				}
				return nil
			})
			w.end(java)
			w.led([]*member{jumper, other}, "after the Java leader has left")
			w.end(other)
			w.led([]*member{jumper}, "when no Java member is left")
			late := w.start("", false)
			late.java.Who(2) // the seal's text, and the member's own id
			w.kill(jumper)
			next := w.start(migration.To, false)
			w.led([]*member{next}, "after the member that sealed was killed")
			if led := late.java.Led(); len(led) > 0 || !w.sealed() {
				t.Errorf("a Java member has led a sealed election: %v (sealed: %v)", led, w.sealed())
			}
			w.end(next)
			w.stop()
			if history, _, overlap := w.check(); overlap != nil {
				t.Errorf("S1: %v%s", overlap, history)
			}
		})
	}
}
