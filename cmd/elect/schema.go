package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
)

func (a *app) schemaCommand() *cobra.Command {
	var schema, prefix string
	var apply bool
	c := &cobra.Command{
		Use: "schema", Short: "Print or carry out the statements that make the tables on MySQL or MariaDB", Args: cobra.NoArgs,
		Long: `Print what an administrator runs once: the tables, and the rights that members need.
The other stores need nothing of the kind. Nothing is read or changed.

With --apply make those of the tables that are not there yet, for the backend mysql or
mysqltable of the configuration and with its account, which must have CREATE and INSERT on
them. That is better than the statements by hand: these cannot know the server, so the
first election in their tables waits for the greatest TTL (15s), once.`,
		Example: "  elect schema\n  elect schema --schema app --prefix leader\n  elect schema --prefix election_shared   # for the backend mysqltable\n" + example(onStore+"\nelect schema --apply"),
		RunE: func(c *cobra.Command, _ []string) error {
			if apply {
				return a.makeTables(c.Context())
			}
			text, err := mysql.SchemaSQL(schema, prefix)
			if err == nil {
				_, err = fmt.Fprint(a.out, text)
			}
			return err
		},
	}
	c.Flags().BoolVar(&apply, "apply", false, "make the tables of the configuration's store")
	c.Flags().StringVar(&schema, "schema", "", "the tables' schema (default: that of the connection)")
	c.Flags().StringVar(&prefix, "prefix", "", "what their names begin with (default: election)")
	c.MarkFlagsMutuallyExclusive("apply", "schema") // the configuration says both
	c.MarkFlagsMutuallyExclusive("apply", "prefix")
	return c
}

// makeTables makes the tables of the configuration's store, if it needs any.
func (a *app) makeTables(ctx context.Context) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, ok := s.Backend.(*migration.Backend); ok {
		return errors.New("the backend is migration, of two stores; choose the one that needs tables: ELECTION_BACKEND=mysql elect schema --apply")
	}
	maker, ok := s.Backend.(interface{ CreateTables(context.Context) error })
	if !ok {
		_, err := fmt.Fprintf(a.out, "the backend %s needs no tables\n", s.config.Backend)
		return err
	}
	if err := s.within(ctx, maker.CreateTables); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.out, "the tables are there")
	return err
}

// onMigration is the least migration; other stores are named in the same way.
const onMigration = `export ELECTION_BACKEND=migration ELECTION_MIGRATION_STAGE=both
export ELECTION_MIGRATION_FROM=file ELECTION_FILE_DIR="$PWD/leases"
export ELECTION_MIGRATION_TO=memory   # or any other store`

func (a *app) migrateCommand() *cobra.Command {
	var asJSON bool
	status := &cobra.Command{
		Use: "status", Short: "Show how far a migration between two stores is", Args: cobra.NoArgs,
		Long: `Show, of each election, who holds the old lease and the new one and whether the old store
is sealed; which members are at which stage; and what the next step is. A member that
has gone is counted for two of its TTLs more. It needs a configuration with backend:
migration, and reads only.`,
		Example: example(onMigration + "\nelect migrate status"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.migration(c.Context(), asJSON) },
	}
	status.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c := &cobra.Command{Use: "migrate", Short: "Look at a migration between two stores", Example: example(onMigration + "\nelect migrate status --json")}
	c.AddCommand(status)
	return c
}

// A move is where one election is on its way.
type move struct {
	Election string `json:"election"`
	Old      string `json:"old_leader"`
	New      string `json:"new_leader"`
	Sealed   bool   `json:"sealed"` // the old store lets nobody lead any more, and the new one knows
	Back     bool   `json:"back"`   // the new store is sealed: the election has gone back to the old one
	Text     string `json:"text"`
}

// beyond is the stage of a member that elects by the new store alone: it has come to the
// end of the road, or has never been on it.
const beyond = "new"

// A road is a whole migration.
type road struct {
	From    string         `json:"from"` // what marks call the stores
	To      string         `json:"to"`
	Moves   []move         `json:"elections"`
	Members map[string]int `json:"members"` // by stage, or beyond
	Next    string         `json:"next"`
	kind    string         // of the new store
}

func (a *app) migration(ctx context.Context, asJSON bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	b, ok := s.Backend.(*migration.Backend)
	if !ok {
		return fmt.Errorf("the backend is %s; a migration has backend: migration, and says from, to and stage", s.config.Backend)
	}
	from, to := b.Stores()
	if to == nil {
		return errors.New(`this configuration is at stage from, which does not use the new store: look with stage both (ELECTION_MIGRATION_STAGE=both)`)
	}
	r := road{kind: to.Guarantees().Name, Members: map[string]int{}}
	r.From, r.To = b.Names()
	var sides [2]map[string]backend.Record
	var names []string
	for i, side := range []backend.Backend{from, to} {
		records, err := (&store{side, s.Options, s.config}).records(ctx)
		if err != nil {
			return err
		}
		sides[i] = map[string]backend.Record{}
		for _, rec := range records {
			sides[i][rec.Election] = rec
			names = append(names, rec.Election)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		r.Moves = append(r.Moves, moveOf(name, sides[0][name], sides[1][name], r.From, r.To))
	}
	members, err := s.members(ctx)
	if err != nil {
		return err
	}
	there, err := (&store{to, s.Options, s.config}).members(ctx)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.Stage == "" { // it knows nothing of this
			m.Stage = string(migration.From)
			if slices.ContainsFunc(there, func(t backend.Member) bool { return t.Nonce == m.Nonce }) {
				m.Stage = beyond
			}
		}
		r.Members[m.Stage]++
	}
	r.Next = r.next()
	if asJSON {
		return a.json(r)
	}
	fmt.Fprintf(a.out, "from %s to %s\n", r.From, r.To)
	var w table
	w.row("ELECTION", "OLD LEASE", "NEW LEASE", "STATE")
	for _, m := range r.Moves {
		w.row(m.Election, dash(m.Old), dash(m.New), m.Text)
	}
	if _, err := fmt.Fprint(a.out, w); err != nil {
		return err
	}
	for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To} {
		if n := r.Members[string(stage)]; n > 0 {
			fmt.Fprintf(a.out, "members at %s: %d\n", stage, n)
		}
	}
	if n := r.Members[beyond]; n > 0 {
		fmt.Fprintf(a.out, "members by %s alone: %d\n", r.To, n)
	}
	fmt.Fprintf(a.out, "next: %s\nMembers of other programs announce nothing: the seal keeps them out, not this count.\n", r.Next)
	return nil
}

func moveOf(name string, old, new backend.Record, from, to string) move {
	m := move{Election: name, Old: old.Holder.ID, New: new.Holder.ID, Sealed: old.MovedTo == to && new.MovedFrom == from, Back: new.MovedTo == from}
	switch {
	case old.MovedTo != "" && old.MovedTo != to:
		m.Text = "the old store says that it has moved to " + old.MovedTo + ", a third one"
	case m.Back:
		m.Text = "gone back: the new store is sealed"
	case m.Sealed:
		m.Text = "moved: the old store is sealed"
	case old.MovedTo == to:
		m.Text = "sealed, and the new store does not know yet: a member at to will say so when it leads"
	case new.MovedFrom == migration.UnsealedMark(from):
		m.Text = "the new store alone decides; the old store is not sealed"
	case m.Old != "" && m.Old == m.New:
		m.Text = "both leases are held by one"
	case m.New != "":
		m.Text = "on its way"
	default:
		m.Text = "on the old store"
	}
	return m
}

func (r *road) next() string {
	sealed, back := 0, false
	for _, m := range r.Moves {
		if m.Sealed {
			sealed++
		}
		back = back || m.Back
	}
	at := func(s migration.Stage) int { return r.Members[string(s)] }
	switch {
	case at(migration.From) > 0 && r.Members[beyond] > 0:
		return "members elect by " + r.From + " alone and by " + r.To + " alone: unless all elections are sealed each store has a leader; bring those at from to both"
	case at(migration.From) > 0 && at(migration.To) > 0:
		return "members are at from and at to: bring those at from to both; those at to lead only what is sealed"
	case back && at(migration.Both) > 0 && at(migration.From) > 0:
		return "deploy the members at both with stage from to finish the way back, or those at from with stage both to go on again"
	case back && at(migration.Both) > 0:
		return "deploy the members at both with stage from to finish the way back, or with stage to to go on again"
	case at(migration.From) > 0:
		return "deploy the members at from with stage both"
	case at(migration.Both) > 0:
		return "when nobody elects by the old store alone, deploy the members at both with stage to"
	case at(migration.To) > 0 && sealed < len(r.Moves):
		return fmt.Sprintf("%d of %d elections are sealed; the others are when their leader is at to, or not at all if that has unsealed", sealed, len(r.Moves))
	case at(migration.To) > 0:
		return "all elections are sealed: the configuration may name backend " + r.kind + " alone"
	case r.Members[beyond] > 0:
		return "all members elect by " + r.To + " alone: this road is at its end"
	}
	return "no member has announced itself"
}

func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}
