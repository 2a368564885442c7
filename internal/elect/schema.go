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
		Example: example("elect schema\nelect schema postgres --prefix leader\n" + onStore + "\nelect schema --apply"),
		RunE: func(c *cobra.Command, args []string) error {
			if apply {
				return a.withStore(func(ctx context.Context, s *store, _ []string) error { return a.createTables(ctx, s, grantTo) })(c, nil)
			}
			if grantTo != "" {
				return errors.New("--grant-to needs --apply; the statements that elect prints have a place for the account")
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
	c.Flags().BoolVar(&apply, "apply", false, "create the tables of the configuration's store")
	c.Flags().StringVar(&grantTo, "grant-to", "", "with --apply: the `account` that gets the rights of a member; on MySQL user@host")
	c.Flags().StringVar(&schema, "schema", "", "`name` of the schema of the tables (default: that of the connection)")
	c.Flags().StringVar(&prefix, "prefix", "", "`prefix` of the table names (default: election)")
	c.MarkFlagsMutuallyExclusive("apply", "schema") // with --apply the configuration says both
	c.MarkFlagsMutuallyExclusive("apply", "prefix")
	return c
}

// createTables creates the tables of the configuration's store, if it needs any, and grants rights on them to
// an account, if one is named.
func (a *app) createTables(ctx context.Context, s *store, grantTo string) error {
	if _, ok := s.Backend.(*migration.Backend); ok {
		return errors.New("the backend is migration, which has two stores; name the one that needs tables: ELECTION_BACKEND=mysql elect schema --apply")
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
		return fmt.Errorf("the backend %s grants no rights: execute the statements that \"elect schema\" prints", s.config.Backend)
	}

	if err := s.within(ctx, creator.CreateTables); err != nil {
		return err
	}
	note := ""
	if grantTo != "" {
		if err := s.within(ctx, func(ctx context.Context) error { return granter.Grant(ctx, grantTo) }); err != nil {
			return err
		}
		note = fmt.Sprintf(", and %s has the rights of a member", clean.Text(grantTo, 80, false))
	}
	_, err := fmt.Fprintf(a.out, "the tables are there, on %s%s\n", s.name(), note)
	return err
}
