package curator

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/internal/ensemble"
)

func TestInvalidOptionsAreNamed(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"no servers":         {},
		"layout":             {ZooKeeper: zookeeper.Options{Servers: []string{"a"}}, Layout: "queue"},
		"same for all":       {ZooKeeper: zookeeper.Options{Servers: []string{"a"}}, Path: "/app/latch"},
		"outside /zookeeper": {ZooKeeper: zookeeper.Options{Servers: []string{"a"}}, Paths: map[string]string{"x": "/zookeeper"}},
		"at least six ticks": {ZooKeeper: zookeeper.Options{Servers: []string{"a"}}, Session: time.Second},
	} {
		_, err := Open(o)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("want ErrInvalid about %q, got %v", want, err)
		}
	}
}

func TestNodeNamesAreEscapedAndOrdered(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "A", "a/b", "..", ".", "...", "%", "%61", "é", "AccountService:1.0.0", " ", "a\\b"} {
		part := ensemble.Escape(name)
		if err := ensemble.CheckPath("/x/" + part); err != nil {
			t.Errorf("%q becomes %q: %v", name, part, err)
		}
		if back, ok := ensemble.Unescape(part); !ok || back != name {
			t.Errorf("%q becomes %q and then %q", name, part, back)
		}
	}
	l := layout{base: "latch-"}
	// By the number after the last base name, whatever comes before; a child without it is compared whole, as Curator does.
	for _, c := range [][]string{
		{"_c_ffffffff-2815-4a0d-b821-61692c4a6290-latch-0000000001", "_c_00000000-2815-4a0d-b821-61692c4a6290-latch-0000000002"},
		{"x-latch-latch-0000000001", "latch-0000000002"},
		{"0-stray-metadata", "latch-0000000001"},
	} {
		if l.compare(c[0], c[1]) >= 0 {
			t.Errorf("of %q the first does not come first", c)
		}
	}
}
