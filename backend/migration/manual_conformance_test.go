package migration_test

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance"
)

// The old store is manual: programs that had their leader in a configuration. Every candidate
// is named. Without a directory an assignment cannot be sealed, so members at stage to have
// Unsealed.
func TestConformanceFromAPinnedMachine(t *testing.T) {
	t.Parallel()
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		t.Run(string(stage), func(t *testing.T) {
			conformance.Run(t, conformance.Harness{
				Virtual: true, Short: true,
				NewStore: func(t testing.TB) conformance.Store {
					pinned, fresh := memory.New(), memory.New()
					return conformance.Store{Open: func(t testing.TB) backend.Backend {
						from, err := manual.Open(manual.Options{Leader: manual.Self, Store: pinned})
						if err != nil {
							t.Fatal(err)
						}
						return road(t, migration.Options{From: from, To: fresh.Backend(), Stage: stage, Unsealed: stage == migration.To})
					}}
				},
			})
		})
	}
}
