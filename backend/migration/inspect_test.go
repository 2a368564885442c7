package migration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/internal/testbed"
)

// inspected asks b, and counts findings and warnings by the store whose name they begin
// with. Nothing else may be said.
func inspected(t *testing.T, b backend.Backend) (found, warned map[string]int, err error) {
	t.Helper()
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	list, err := b.(backend.Inspector).Inspect(ctx, 10*time.Second, 3*time.Second)
	found, warned = map[string]int{}, map[string]int{}
	for _, f := range list {
		name, _, _ := strings.Cut(f.Text, ": ")
		if name != "here" && name != "there" {
			t.Errorf("a finding does not begin with the name of a store: %v", f)
		}
		found[name]++
		if f.Warning {
			warned[name]++
		}
	}
	return found, warned, err
}

// TestInspectAsksTheStoresThatAreUsed on a real server that has both.
func TestInspectAsksTheStoresThatAreUsed(t *testing.T) {
	t.Parallel()
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	open := func(change func(*mysql.Options)) backend.Backend {
		o := mysql.Options{Config: d.User.Clone(), Prefix: tables(t, d)}
		if change != nil {
			change(&o)
		}
		b, err := mysql.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	away := func(o *mysql.Options) { o.Config.Addr = "127.0.0.1:1" }
	goes := func(stage migration.Stage, from, to backend.Backend) backend.Backend {
		return road(t, migration.Options{From: from, To: to, FromName: "here", ToName: "there", Stage: stage})
	}

	for stage, there := range map[migration.Stage]bool{migration.From: false, migration.Both: true, migration.To: true} {
		found, _, err := inspected(t, goes(stage, open(nil), open(nil)))
		if err != nil || found["here"] < 5 || (found["there"] >= 5) != there || !there && found["there"] > 0 {
			t.Errorf("at stage %s: %v, %v; want five findings or more of each store that is used", stage, found, err)
		}
	}
	if found, _, err := inspected(t, goes(migration.Both, memory.New().Backend(), open(nil))); err != nil || found["here"] != 0 || found["there"] < 5 {
		t.Errorf("the old store has nothing to say: %v, %v", found, err)
	}
	found, _, err := inspected(t, goes(migration.Both, open(nil), open(away)))
	if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "there: ") || found["here"] < 5 {
		t.Errorf("the new store is away: %v, %v; want an error that names it, and what the old one says", found, err)
	}
	if _, _, err := inspected(t, goes(migration.Both, open(away), open(nil))); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "here: ") {
		t.Errorf("the old store is away at stage both: %v; want an error that names it", err)
	}
	if found, warned, err := inspected(t, goes(migration.To, open(away), open(nil))); err != nil || warned["here"] != 1 || found["there"] < 5 {
		t.Errorf("the old store is away at stage to: %v, %v, %v; want a warning that names it", found, warned, err)
	}
}
