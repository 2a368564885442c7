package elect

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/postgres"
)

func (a *app) schemaCommand() *cobra.Command {
	var schema, prefix, grantTo string
	var apply bool
	c := &cobra.Command{
		Use: "schema [mysql | postgres]", Short: "Print or execute the statements that create the tables",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{mysql.Name, postgres.Name},
		Long: `Print the statements that an administrator executes once: they create the tables on MySQL or
MariaDB (the default) or on PostgreSQL, and grant the rights that members need.

With --apply, create the tables of the configuration's store, with its account, which must have
CREATE. With --grant-to, also grant the rights of a member to the account that the programs use.`,
		Example: example("elect schema\nelect schema postgres --prefix leader\n" +
			onStore + "\nelect schema --apply"),
		RunE: func(c *cobra.Command, args []string) error {
			if apply {
				return a.withStore(a.createTables)(c, []string{grantTo})
			}
			if grantTo != "" {
				return errors.New("--grant-to needs --apply; printed statements have a place for the account")
			}
			schemaSQL := mysql.SchemaSQL
			if len(args) > 0 && args[0] == postgres.Name {
				schemaSQL = postgres.SchemaSQL
			}
			text, err := schemaSQL(schema, prefix)
			if err == nil {
				_, err = fmt.Fprint(a.out, text)
			}
			return err
		},
	}
	f := c.Flags()
	f.BoolVar(&apply, "apply", false, "create the tables of the configuration's store")
	f.StringVar(&grantTo, "grant-to", "", "with --apply: `account` of the members; on MySQL user@host")
	f.StringVar(&schema, "schema", "", "`name` of the schema of the tables (default: the connection's)")
	f.StringVar(&prefix, "prefix", "", "`prefix` of the table names (default: election)")
	c.MarkFlagsMutuallyExclusive("apply", "schema") // with --apply the configuration says both
	c.MarkFlagsMutuallyExclusive("apply", "prefix")
	return c
}

// createTables creates the tables of the store, if it needs any, and grants rights on them to args[0], or "".
func (a *app) createTables(ctx context.Context, s *store, args []string) error {
	grantTo := args[0]
	if _, ok := s.Backend.(*migration.Backend); ok {
		return errors.New("a migration has two stores; name the one that needs tables: " +
			"ELECTION_BACKEND=mysql elect schema --apply")
	}
	creator, ok := s.Backend.(interface{ CreateTables(context.Context) error })
	if !ok {
		_, err := fmt.Fprintf(a.out, "the backend %s needs no tables\n", s.config.Backend)
		return err
	}
	granter, ok := s.Backend.(interface {
		Grant(ctx context.Context, account string) error
	})
	if grantTo != "" && !ok {
		return fmt.Errorf("the backend %s grants no rights: execute what \"elect schema\" prints",
			s.config.Backend)
	}

	if err := s.within(ctx, creator.CreateTables); err != nil {
		return err
	}
	note := ""
	if grantTo != "" {
		err := s.within(ctx, func(ctx context.Context) error { return granter.Grant(ctx, grantTo) })
		if err != nil {
			return err
		}
		note = fmt.Sprintf(", and %s has the rights of a member", clean.Text(grantTo, 80, false))
	}
	_, err := fmt.Fprintf(a.out, "the tables are there, on %s%s\n", s.name(), note)
	return err
}
