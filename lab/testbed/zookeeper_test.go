package testbed

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// ZooKeeper writes its clock into the creation time of a node.
func TestStepMovesTheClockOfZooKeeper(t *testing.T) {
	z := StartZooKeeper(t, Options{Clock: true})
	c := DialZooKeeper(t, []string{z.Addr()})
	const back = 72 * time.Hour
	z.Step(t, -back)
	if _, err := c.Create("/clock", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	_, stat, err := c.Get("/clock")
	NoError(t, err)
	if off := time.Since(time.UnixMilli(stat.Ctime)); off < back || off > back+time.Hour {
		t.Errorf("the server's clock is %v behind, want %v", off, back)
	}
}
