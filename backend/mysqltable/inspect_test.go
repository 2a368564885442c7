package mysqltable

import (
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// The server is the one that also has the other programs' table.
func TestInspectReportsWhatLeasesDependOn(t *testing.T) {
	t.Parallel()
	n := newLab(t, testbed.MariaDB, UpdateTime, 30*time.Second).node(t, "a")
	ctx, cancel := n.ctx()
	defer cancel()
	list, err := n.Inspect(ctx, 15*time.Second, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"server", "durability", "replication", "greatest TTL"} {
		if !slices.ContainsFunc(list, func(f backend.Diagnostic) bool { return f.What == what }) {
			t.Errorf("no diagnostic of %q: %v", what, list)
		}
	}
}
