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
	o, acl := shared(t), zk.WorldACL(zk.PermAll)
	admin, queue := dial(t, o.Servers), "/queue-"+string(backend.NewNonce())
	if _, err := admin.CreateContainer(queue, nil, zk.FlagContainer, acl); err != nil {
		t.Fatal(err)
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	seq := func(c *zk.Conn, flags int32) string {
		p, err := c.Create(queue+"/x-", nil, flags|zk.FlagSequence, acl)
		must(nil, err)
		return p
	}
	steps := []struct {
		name string
		do   func()
	}{
		{"persistent", func() { seq(admin, 0) }},
		{"made and deleted", func() { must(nil, admin.Delete(seq(admin, 0), -1)) }},
		{"no sequence", func() { must(admin.Create(fmt.Sprintf("%s/y-%d", queue, rand.Int()), nil, 0, acl)) }},
		{"data of the queue", func() { must(admin.Set(queue, []byte("x"), -1)) }},
		{"acl of the queue", func() { must(admin.SetACL(queue, acl, -1)) }},
		{"grandchild", func() {
			p := seq(admin, 0)
			must(admin.Create(p+"/z", nil, 0, acl))
			must(nil, admin.Delete(p+"/z", -1))
		}},
		{"session closed", func() {
			c := dial(t, o.Servers)
			for range 3 {
				seq(c, zk.FlagEphemeral)
			}
			c.Close()
		}},
		{"failed multi", func() {
			_, err := admin.Multi(&zk.CreateRequest{Path: queue + "/x-", Acl: acl, Flags: zk.FlagSequence},
				&zk.CreateRequest{Path: queue + "/x-", Acl: acl, Flags: zk.FlagSequence},
				&zk.CheckVersionRequest{Path: queue, Version: impossibleVersion})
			if err == nil {
				t.Fatal("want it to fail")
			}
		}},
		{"failed create", func() {
			_, err := admin.Create(queue+"/x-/a/b", nil, zk.FlagSequence, acl)
			if err == nil {
				t.Fatal("want it to fail")
			}
		}},
		{"multi made and deleted", func() {
			must(admin.Create(queue+"/gone", nil, 0, acl))
			_, err := admin.Multi(&zk.CreateRequest{Path: queue + "/x-", Acl: acl, Flags: zk.FlagSequence},
				&zk.DeleteRequest{Path: queue + "/gone", Version: -1},
				&zk.CreateRequest{Path: queue + "/gone", Acl: acl},
				&zk.DeleteRequest{Path: queue + "/gone", Version: -1})
			must(nil, err)
		}},
		{"container child", func() {
			must(admin.CreateContainer(fmt.Sprintf("%s/c-%d", queue, rand.Int()), nil, zk.FlagContainer, acl))
		}},
	}
	for round := range 40 {
		s := steps[round%len(steps)]
		if round >= len(steps) {
			s = steps[rand.IntN(len(steps))]
		}
		s.do()
		must(admin.Sync("/"))
		names, stat, err := admin.Children(queue)
		must(nil, err)
		if int(stat.NumChildren) != len(names) {
			t.Errorf("%d names, %d children", len(names), stat.NumChildren)
		}
		want := fmt.Sprintf("-%010d", createdChildren(*stat))
		p := seq(admin, zk.FlagEphemeral)
		if !strings.HasSuffix(p, want) {
			t.Errorf("after %s: want %s, got %s", s.name, want, p)
		}
		if rand.IntN(2) == 0 {
			must(nil, admin.Delete(p, -1))
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
