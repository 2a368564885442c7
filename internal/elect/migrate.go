package elect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
)

const onMigration = `export ELECTION_BACKEND=migration ELECTION_MIGRATION_STAGE=both
export ELECTION_MIGRATION_FROM=file ELECTION_FILE_DIR="$PWD/leases"
export ELECTION_MIGRATION_TO=memory   # or any other store`

func (a *app) migrateCommand() *cobra.Command {
	status := &cobra.Command{
		Use: "status", Short: "Show the progress of a migration between two stores", Args: cobra.NoArgs,
		Long: `Show for each election who holds the lease on the old store and on the new one, and whether
the old store is sealed, then how many members are at each stage, and the next step. A member that
has ended is counted for two more of its TTLs; one at new elects by the new store alone.`,
		Example: example(onMigration + "\nelect migrate status"),
		RunE:    a.withStore(a.migrationStatus),
	}
	c := &cobra.Command{Use: "migrate", Short: "Observe a migration", Example: status.Example}
	c.AddCommand(status)
	return c
}

// stageNew stands for members that elect by the new store alone, without a migration.
const stageNew migration.Stage = "new"

// A migrationProgress says how far a migration is.
type migrationProgress struct {
	from, to  string // the names of the old and of the new store in migration marks
	backend   string // of the new store
	elections int
	sealed    int  // elections that nobody can lead by the old store, as the new store knows
	back      bool // the new store is sealed: an election has moved back to the old one
	members   map[migration.Stage]int
}

func (a *app) migrationStatus(ctx context.Context, s *store, _ []string) error {
	b, ok := s.Backend.(*migration.Backend)
	if !ok {
		return fmt.Errorf("the backend is %s; set backend: migration, from, to and stage", s.config.Backend)
	}
	old, new := b.Stores()
	if new == nil {
		return errors.New("stage from has no new store; set ELECTION_MIGRATION_STAGE=both to see it")
	}
	p := migrationProgress{backend: new.Guarantees().Name, members: map[migration.Stage]int{}}
	p.from, p.to = b.Names()
	onOld, onNew := &store{old, s.Options, s.config}, &store{new, s.Options, s.config}
	oldRecords, err1 := onOld.records(ctx, "")
	newRecords, err2 := onNew.records(ctx, "")
	members, err3 := s.members(ctx)
	newMembers, err4 := onNew.members(ctx)
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return err
	}

	byName := map[string][2]backend.Record{}
	for i, records := range [][]backend.Record{oldRecords, newRecords} {
		for _, r := range records {
			both := byName[r.Election]
			both[i] = r
			byName[r.Election] = both
		}
	}
	fmt.Fprintf(a.out, "from %s to %s\n", p.from, p.to)
	t := table(a.out)
	fmt.Fprintln(t, "ELECTION\tOLD LEASE\tNEW LEASE\tSTATE")
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		old, new := byName[name][0], byName[name][1]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n",
			name, cmp.Or(old.Holder.ID, "-"), cmp.Or(new.Holder.ID, "-"), p.add(old, new))
	}
	t.Flush()
	for _, m := range members {
		stage := migration.Stage(m.Stage)
		switch {
		case stage != "":
		case slices.ContainsFunc(newMembers, func(n backend.Member) bool { return n.Nonce == m.Nonce }):
			stage = stageNew
		default: // the member is not configured for a migration
			stage = migration.From
		}
		p.members[stage]++
	}

	for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To, stageNew} {
		if n := p.members[stage]; n > 0 {
			fmt.Fprintf(a.out, "members at %s: %d\n", stage, n)
		}
	}
	_, err := fmt.Fprintf(a.out, "next: %s\n"+
		"Other programs on the old store are not counted: the seal keeps them from leading.\n", p.next())
	return err
}

// add counts an election, and says how far its migration is.
func (p *migrationProgress) add(old, new backend.Record) string {
	p.elections++
	switch {
	case new.MovedTo == p.from:
		p.back = true
		return "moved back: the new store is sealed"
	case old.MovedTo == p.to && new.MovedFrom == p.from:
		p.sealed++
		return "moved: the old store is sealed"
	case old.MovedTo != "":
		return "the old store says that it has moved to " + old.MovedTo + "; the new one does not know it"
	case new.MovedFrom == migration.UnsealedMark(p.from):
		return "the new store alone decides; the old store is not sealed"
	case old.Holder.ID != "" && old.Holder.ID == new.Holder.ID:
		return "one member holds both leases"
	case new.Holder.ID != "":
		return "moving"
	}
	return "on the old store"
}

func (p *migrationProgress) next() string {
	from, both := p.members[migration.From], p.members[migration.Both]
	to, alone := p.members[migration.To], p.members[stageNew]
	switch {
	case from > 0 && to+alone > 0:
		return "deploy the members at from with stage both: they and those that elect by " + p.to +
			" may both lead, unless all elections are sealed"
	case p.back && both > 0:
		return "deploy all members with stage from to finish the way back, or with both, then to, to move on"
	case from > 0:
		return "deploy the members at from with stage both"
	case both > 0:
		return "when no process elects by the old store alone, deploy the members at both with stage to"
	case to > 0 && p.sealed < p.elections:
		return fmt.Sprintf("%d of %d elections are sealed; a leader at to without unsealed seals the others",
			p.sealed, p.elections)
	case to > 0:
		return "all elections are sealed: the configuration may name backend " + p.backend + " alone"
	case alone > 0:
		return "all members elect by " + p.to + " alone: the migration is complete"
	}
	return "no member has announced itself"
}
