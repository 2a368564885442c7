package curator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// The number that a grant derives from a queue's stat is the one that the server gives
// next, whatever was created, deleted, written, refused, or ended with its session before.
func TestTheNextNumberIsKnownFromTheStat(t *testing.T) {
	t.Parallel()
	o := shared(t)
	q := &changedQueue{t, o.Servers, dial(t, o.Servers), "/queue-" + string(backend.NewNonce())}
	q.must(q.admin.CreateContainer(q.path, nil, zk.FlagContainer, anyone))
	steps := q.changes()
	for round := range 40 {
		s := steps[round%len(steps)]
		if round >= len(steps) {
			s = steps[rand.IntN(len(steps))]
		}
		s.do()
		q.must(q.admin.Sync("/"))
		names, stat, err := q.admin.Children(q.path)
		q.must(nil, err)
		if int(stat.NumChildren) != len(names) {
			t.Errorf("%d names, %d children", len(names), stat.NumChildren)
		}
		want := fmt.Sprintf("-%010d", createdChildren(*stat))
		p := q.create(q.admin, zk.FlagEphemeral)
		if !strings.HasSuffix(p, want) {
			t.Errorf("after %s: want %s, got %s", s.name, want, p)
		}
		if rand.IntN(2) == 0 {
			q.must(nil, q.admin.Delete(p, -1))
		}
	}
}

// After 2^31 nodes a server may give negative numbers, and the stat is no longer a count.
func TestANumberIsComparedWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		node string
		made int32
		want bool
	}{
		{"a-latch-0000000012", 12, true},
		{"a-latch-0000000013", 12, false},
		{"a-latch-1073741823", 1073741823, true},
		{"a-latch--1073741823", 1073741823, false},
		{"b-latch-0000000012", 12, false},
	} {
		if got := isNextNumber(c.node, "a-latch-", c.made); got != c.want {
			t.Errorf("%s is the next after %d: %v, want %v", c.node, c.made, got, c.want)
		}
	}
}

// A changedQueue is a queue of Curator's, and what may happen to one.
type changedQueue struct {
	t       *testing.T
	servers []string
	admin   *zk.Conn
	path    string
}

var anyone = zk.WorldACL(zk.PermAll)

type change struct {
	name string
	do   func()
}

func (q *changedQueue) must(_ any, err error) {
	q.t.Helper()
	if err != nil {
		q.t.Fatal(err)
	}
}

// create makes the next node of the queue.
func (q *changedQueue) create(c *zk.Conn, flags int32) string {
	p, err := c.Create(q.path+"/x-", nil, flags|zk.FlagSequence, anyone)
	q.must(nil, err)
	return p
}

func (q *changedQueue) changes() []change {
	return []change{
		{"persistent", func() { q.create(q.admin, 0) }},
		{"made and deleted", func() { q.must(nil, q.admin.Delete(q.create(q.admin, 0), -1)) }},
		{"no sequence", func() { q.must(q.admin.Create(fmt.Sprintf("%s/y-%d", q.path, rand.Int()), nil, 0, anyone)) }},
		{"data of the queue", func() { q.must(q.admin.Set(q.path, []byte("x"), -1)) }},
		{"acl of the queue", func() { q.must(q.admin.SetACL(q.path, anyone, -1)) }},
		{"grandchild", func() {
			p := q.create(q.admin, 0)
			q.must(q.admin.Create(p+"/z", nil, 0, anyone))
			q.must(nil, q.admin.Delete(p+"/z", -1))
		}},
		{"session closed", func() {
			c := dial(q.t, q.servers)
			for range 3 {
				q.create(c, zk.FlagEphemeral)
			}
			c.Close()
		}},
		{"failed multi", func() {
			_, err := q.admin.Multi(&zk.CreateRequest{Path: q.path + "/x-", Acl: anyone, Flags: zk.FlagSequence},
				&zk.CreateRequest{Path: q.path + "/x-", Acl: anyone, Flags: zk.FlagSequence},
				&zk.CheckVersionRequest{Path: q.path, Version: impossibleVersion})
			if err == nil {
				q.t.Fatal("want it to fail")
			}
		}},
		{"failed create", func() {
			_, err := q.admin.Create(q.path+"/x-/a/b", nil, zk.FlagSequence, anyone)
			if err == nil {
				q.t.Fatal("want it to fail")
			}
		}},
		{"multi made and deleted", func() {
			q.must(q.admin.Create(q.path+"/gone", nil, 0, anyone))
			_, err := q.admin.Multi(&zk.CreateRequest{Path: q.path + "/x-", Acl: anyone, Flags: zk.FlagSequence},
				&zk.DeleteRequest{Path: q.path + "/gone", Version: -1},
				&zk.CreateRequest{Path: q.path + "/gone", Acl: anyone},
				&zk.DeleteRequest{Path: q.path + "/gone", Version: -1})
			q.must(nil, err)
		}},
		{"container child", func() {
			q.must(q.admin.CreateContainer(fmt.Sprintf("%s/c-%d", q.path, rand.Int()), nil, zk.FlagContainer, anyone))
		}},
	}
}
