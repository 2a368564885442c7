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
	"github.com/go-election/go-election/lab/testbed"
)

// inspect inspects b, and counts diagnostics and warnings by the store whose name they begin
// with. All must begin with one.
func inspect(t *testing.T, b backend.Backend) (count, warnings map[string]int, err error) {
	t.Helper()
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	list, err := b.(backend.Inspector).Inspect(ctx, 10*time.Second, 3*time.Second)
	count, warnings = map[string]int{}, map[string]int{}
	for _, d := range list {
		name, _, _ := strings.Cut(d.Text, ": ")
		if name != "here" && name != "there" {
			t.Errorf("expected the name of a store before a diagnostic, got %v", d)
		}
		count[name]++
		if d.Warning {
			warnings[name]++
		}
	}
	return count, warnings, err
}

// One real server has both stores.
func TestInspectAsksTheStoresThatAreUsed(t *testing.T) {
	t.Parallel()
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	open := func(change func(*mysql.Options)) backend.Backend {
		o := mysql.Options{Config: d.User.Clone(), Prefix: tables(t, d)}
		if change != nil {
			change(&o)
		}
		b, err := mysql.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	unreachable := func(o *mysql.Options) { o.Config.Addr = "127.0.0.1:1" }
	migrate := func(stage migration.Stage, from, to backend.Backend) backend.Backend {
		return road(t, migration.Options{From: from, To: to, FromName: "here", ToName: "there", Stage: stage})
	}

	for stage, there := range map[migration.Stage]bool{migration.From: false, migration.Both: true, migration.To: true} {
		count, _, err := inspect(t, migrate(stage, open(nil), open(nil)))
		if err != nil || count["here"] < 5 || (count["there"] >= 5) != there || !there && count["there"] > 0 {
			t.Errorf("at stage %s: expected five diagnostics or more of each store that is used, got %v, %v", stage, count, err)
		}
	}
	if count, _, err := inspect(t, migrate(migration.Both, memory.New().Backend(), open(nil))); err != nil || count["here"] != 0 || count["there"] < 5 {
		t.Errorf("expected diagnostics of the new store alone, got %v, %v", count, err)
	}
	count, _, err := inspect(t, migrate(migration.Both, open(nil), open(unreachable)))
	if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "there: ") || count["here"] < 5 {
		t.Errorf("expected an error that names the unreachable new store, and diagnostics of the old one, got %v, %v", count, err)
	}
	if _, _, err := inspect(t, migrate(migration.Both, open(unreachable), open(nil))); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "here: ") {
		t.Errorf("at stage both: expected an error that names the unreachable old store, got %v", err)
	}
	if count, warnings, err := inspect(t, migrate(migration.To, open(unreachable), open(nil))); err != nil || warnings["here"] != 1 || count["there"] < 5 {
		t.Errorf("at stage to: expected a warning that names the unreachable old store, got %v, %v, %v", count, warnings, err)
	}
}
