package elect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
)

const onMigration = `export ELECTION_BACKEND=migration ELECTION_MIGRATION_STAGE=both
export ELECTION_MIGRATION_FROM=file ELECTION_FILE_DIR="$PWD/leases"
export ELECTION_MIGRATION_TO=memory   # or any other store`

func (a *app) migrateCommand() *cobra.Command {
	var asJSON bool
	status := &cobra.Command{
		Use: "status", Short: "Show the progress of a migration between two stores", Args: cobra.NoArgs,
		Long: `Show, for each election, who holds the lease on the old store and on the new one, and
whether the old store is sealed. Then show how many members are at each stage, and the next
step. A member that has ended is counted for two more of its TTLs. Elect needs a configuration
with backend: migration, and only reads.`,
		Example: example(onMigration + "\nelect migrate status"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.migrationStatus(c.Context(), asJSON) },
	}
	status.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	c := &cobra.Command{Use: "migrate", Short: "Observe a migration between two stores", Example: example(onMigration + "\nelect migrate status --json")}
	c.AddCommand(status)
	return c
}

// An electionProgress says how far the migration of one election is.
type electionProgress struct {
	Election string `json:"election"`
	Old      string `json:"old_leader"`
	New      string `json:"new_leader"`
	Sealed   bool   `json:"sealed"` // nobody can lead by the old store, and the new store knows that
	Back     bool   `json:"back"`   // the new store is sealed, because the election has moved back to the old one
	Text     string `json:"text"`
}

// stageNew stands for members that elect by the new store alone, without a migration.
const stageNew = "new"

// A migrationProgress says how far a migration is.
type migrationProgress struct {
	From      string             `json:"from"` // the name of the old store in migration marks
	To        string             `json:"to"`   // the name of the new store
	Elections []electionProgress `json:"elections"`
	Members   map[string]int     `json:"members"` // number of members by stage, or stageNew
	Next      string             `json:"next"`
	backend   string             // the backend of the new store
}

func (a *app) migrationStatus(ctx context.Context, asJSON bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	b, ok := s.Backend.(*migration.Backend)
	if !ok {
		return fmt.Errorf("the backend is %s; a migration needs backend: migration, with from, to and stage", s.config.Backend)
	}
	old, new := b.Stores()
	if new == nil {
		return errors.New(`this configuration is at stage from, which does not use the new store; set stage both (ELECTION_MIGRATION_STAGE=both)`)
	}
	p := migrationProgress{backend: new.Guarantees().Name}
	p.From, p.To = b.Names()
	if err := p.readElections(ctx, &store{old, s.Options, s.config}, &store{new, s.Options, s.config}); err != nil {
		return err
	}
	if err := p.readMembers(ctx, s, &store{new, s.Options, s.config}); err != nil {
		return err
	}
	p.Next = p.next()
	if asJSON {
		return a.json(p)
	}
	return p.print(a.out)
}

func (p *migrationProgress) readElections(ctx context.Context, old, new *store) error {
	var names []string
	read := func(s *store) (map[string]backend.Record, error) {
		records, err := s.records(ctx)
		byName := map[string]backend.Record{}
		for _, r := range records {
			byName[r.Election] = r
			names = append(names, r.Election)
		}
		return byName, err
	}
	oldRecords, err := read(old)
	if err != nil {
		return err
	}
	newRecords, err := read(new)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		p.Elections = append(p.Elections, progressOf(name, oldRecords[name], newRecords[name], p.From, p.To))
	}
	return nil
}

func (p *migrationProgress) readMembers(ctx context.Context, both, new *store) error {
	members, err := both.members(ctx)
	if err != nil {
		return err
	}
	onNew, err := new.members(ctx)
	if err != nil {
		return err
	}
	p.Members = map[string]int{}
	for _, m := range members {
		if m.Stage == "" { // the member is not configured for a migration
			m.Stage = string(migration.From)
			if slices.ContainsFunc(onNew, func(n backend.Member) bool { return n.Nonce == m.Nonce }) {
				m.Stage = stageNew
			}
		}
		p.Members[m.Stage]++
	}
	return nil
}

func (p *migrationProgress) print(w io.Writer) error {
	fmt.Fprintf(w, "from %s to %s\n", p.From, p.To)
	var t table
	t.row("ELECTION", "OLD LEASE", "NEW LEASE", "STATE")
	for _, e := range p.Elections {
		t.row(e.Election, orDash(e.Old), orDash(e.New), e.Text)
	}
	if _, err := fmt.Fprint(w, t); err != nil {
		return err
	}
	for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To} {
		if n := p.Members[string(stage)]; n > 0 {
			fmt.Fprintf(w, "members at %s: %d\n", stage, n)
		}
	}
	if n := p.Members[stageNew]; n > 0 {
		fmt.Fprintf(w, "members that elect by %s alone: %d\n", p.To, n)
	}
	fmt.Fprintf(w, "next: %s\nOther programs on the old store do not announce themselves and are not counted: the seal keeps them from leading.\n", p.Next)
	return nil
}

func progressOf(name string, old, new backend.Record, from, to string) electionProgress {
	p := electionProgress{Election: name, Old: old.Holder.ID, New: new.Holder.ID, Sealed: old.MovedTo == to && new.MovedFrom == from, Back: new.MovedTo == from}
	switch {
	case old.MovedTo != "" && old.MovedTo != to:
		p.Text = "the old store says that the election has moved to " + old.MovedTo + ", a third store"
	case p.Back:
		p.Text = "moved back: the new store is sealed"
	case p.Sealed:
		p.Text = "moved: the old store is sealed"
	case old.MovedTo == to:
		p.Text = "the old store is sealed, but the new store does not know that yet; a member at to writes it when it leads"
	case new.MovedFrom == migration.UnsealedMark(from):
		p.Text = "the new store alone decides; the old store is not sealed"
	case p.Old != "" && p.Old == p.New:
		p.Text = "one member holds both leases"
	case p.New != "":
		p.Text = "moving"
	default:
		p.Text = "on the old store"
	}
	return p
}

func (p *migrationProgress) next() string {
	sealed, back := 0, false
	for _, e := range p.Elections {
		if e.Sealed {
			sealed++
		}
		back = back || e.Back
	}
	at := func(s migration.Stage) int { return p.Members[string(s)] }
	switch {
	case at(migration.From) > 0 && p.Members[stageNew] > 0:
		return "some members elect by " + p.From + " alone and some by " + p.To + " alone: each store has a leader, unless all elections are sealed; deploy the members at from with stage both"
	case at(migration.From) > 0 && at(migration.To) > 0:
		return "some members are at from and some at to: deploy those at from with stage both; those at to lead only sealed elections"
	case back && at(migration.Both) > 0 && at(migration.From) > 0:
		return "to finish the way back, deploy the members at both with stage from; to move on to the new store again, deploy those at from with stage both"
	case back && at(migration.Both) > 0:
		return "deploy the members at both with stage from to finish the way back, or with stage to to move to the new store again"
	case at(migration.From) > 0:
		return "deploy the members at from with stage both"
	case at(migration.Both) > 0:
		return "when no process elects by the old store alone, deploy the members at both with stage to"
	case at(migration.To) > 0 && sealed < len(p.Elections):
		return fmt.Sprintf("%d of %d elections are sealed; each of the others is sealed when its leader is at to, but not if that leader is configured with unsealed", sealed, len(p.Elections))
	case at(migration.To) > 0:
		return "all elections are sealed: the configuration may name backend " + p.backend + " alone"
	case p.Members[stageNew] > 0:
		return "all members elect by " + p.To + " alone: the migration is complete"
	}
	return "no member has announced itself"
}

func orDash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}
