package mutants

import (
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

func postgres(tests string) check { return check{"./backend/postgres", "^" + tests + "$", nil} }
func mysql(tests string) check    { return check{"./backend/mysql", "^" + tests + "$", nil} }

// Drivers that depend on what somebody has told their connection.
func TestEachBrokenPlaceIsFound(t *testing.T) {
	onServers(t, func(t *testing.T) {
		testbed.SharedPostgres(t)
		testbed.Shared(t, testbed.MariaDB)
	})
	t.Run("PostgreSQL", func(t *testing.T) { tryAll(t, "../backend/postgres/", postgresMutants) })
	t.Run("MySQL", func(t *testing.T) { tryAll(t, "../backend/mysql/", mysqlMutants) })
}

var postgresMutants = []mutant{
	{"statements name no schema, and follow the search path", "statements.go",
		`"{table}", ascii(t), `,
		`"SET LOCAL search_path = pg_catalog, pg_temp; ", "", "{table}", ascii(relational.Table{Quote: t.Quote, Prefix: t.Prefix}), `,
		"another schema shows", postgres("TestTablesOfStrangersDoNotMatter")},
	{"the schema is the one that the connection was told", "place.go",
		"SELECT pg_catalog.current_setting('search_path'), pg_catalog.pg_backend_pid() <> {pid}; ` + settingsSQL +\n	`SET LOCAL search_path TO DEFAULT; SELECT",
		"SELECT pg_catalog.current_setting('search_path'), pg_catalog.pg_backend_pid() <> {pid}; ` +\n	`SELECT",
		"behind_somebody's_search_path", postgres("TestNoTableIsMadeOrUsedInAPlaceInDoubt")},
	{"what other roles take for $user does not count", "place.go",
		"OR p.reset_val LIKE '%$user%' AND",
		"OR false AND",
		"with_a_role's_own_schema", postgres("TestNoTableIsMadeOrUsedInAPlaceInDoubt")},
	{"rows that are hidden are not there", "statements.go",
		"SET LOCAL row_security = off; ",
		"SET LOCAL row_security = on; ",
		"want ErrDenied", postgres("TestHiddenRowsAreDenied")},
	{"a copy of the table is the table", "statements.go",
		"ELSE oid::text END",
		"ELSE '1' END",
		"want ErrEpoch", postgres("TestATableInThePlaceOfAnotherIsAnotherStore")},
}

var mysqlMutants = []mutant{
	{"statements name no schema", "statements.go",
		`"{table}", t.String(), `,
		`"{table}", t.Quote+t.Prefix+"_item"+t.Quote, `,
		"are not in the schema that is meant", mysql("TestEveryStatementNamesTheSchema")},
	{"the schema is the one that somebody has selected", "place.go",
		"saidUse(ctx, c); err != nil || said {",
		"saidUse(ctx, c); err != nil || said && false {",
		"the record of", mysql("TestAPoolLeadsToTheSchemaOfItsDSN")},
	{"a fence does not ask whether somebody has said USE", "fence.go",
		"if err == nil && said {",
		"if err == nil && said && false {",
		"want ErrDenied", mysql("TestAFenceFindsTheTableOfTheDSN")},
	{"a fence believes a temporary table", "fence.go",
		`strings.HasPrefix(made, "CREATE TEMPORARY")`,
		`strings.HasPrefix(made, "-")`,
		"want ErrDenied", mysql("TestAFenceDoesNotReadATemporaryTable")},
}
