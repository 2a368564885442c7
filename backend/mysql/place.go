package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/relational"
)

// surveySQL asks for the schema of the connection, for the account whose rights the server applies, for
// another schema with a table like ours that it may see, and whether the schema that is meant has a table of
// the name. A schema is written as the server keeps it.
const surveySQL = `SELECT COALESCE(DATABASE(), ''), CURRENT_USER(),
 COALESCE((SELECT MIN(c.TABLE_SCHEMA) FROM information_schema.COLUMNS c
 WHERE c.TABLE_NAME = {name} AND c.COLUMN_NAME = 'version' AND c.TABLE_SCHEMA <> {schema}), '')
 UNION ALL SELECT i.TABLE_SCHEMA, '', '' FROM information_schema.TABLES i
 WHERE i.TABLE_NAME = {name} AND i.TABLE_SCHEMA = {schema}`

// Survey implements [relational.Dialect]. A connection on which nobody has said USE leads to the schema of
// its DSN: see reset. A server has the tables of many programs, so other schemas matter to hints only.
func (d *driver) Survey(ctx context.Context) (s relational.Survey, err error) {
	schema := "DATABASE()"
	if t := d.Settled(); t.Schema != "" {
		schema = hexText(t.Schema)
	}
	rows, err := d.query(ctx, d.statement(surveySQL, nil, "{schema}", schema))
	if err != nil {
		return s, err
	}

	s.Default = string(rows[0][0])
	s.Where = fmt.Sprintf("what the account %q may see of this server", rows[0][1])
	s.Account = accountOf(string(rows[0][1]))
	if d.Settled().Schema != "" {
		s.Other = string(rows[0][2])
	}
	for _, row := range rows[1:] {
		s.Found = append(s.Found, string(row[0]))
		s.Default = string(row[0])
	}
	if len(s.Found) == 0 && s.Default != "" { // or the account may not see it
		t := d.Table
		t.Schema = s.Default
		s.Hint = "; an administrator can make and grant what is needed: " + createSQL(t) + " " +
			grant(memberRights, t, s.Account)
	}
	return s, nil
}

// reset makes a connection of the program's pool as it was when it was made, if it can be: no statement says
// which schema the DSN names. A temporary table hides the table.
func (d *driver) reset(ctx context.Context, c conn) error {
	if d.Settled().Schema == "" {
		if said, err := saidUse(ctx, c.QueryRowContext); err != nil || said {
			return cmp.Or(err, fmt.Errorf("%w: on this connection of the program's pool somebody has "+
				"selected a schema by USE, and the Options name none", backend.ErrUnavailable))
		}
	}
	var role, log string
	err := c.QueryRowContext(ctx, roleSQL).Scan(&role, &log)
	if err == nil {
		_, err = c.rows(ctx, "SET ROLE "+role, log, "DROP TEMPORARY TABLE IF EXISTS "+d.Settled().String())
	}
	return err
}

// roleSQL asks for what SET ROLE takes to give an account the roles with which it logs in, and what brings
// changes into the binary log: without them replicas would miss rows, and stop at the next change of one.
// MariaDB has no word for an account's own roles.
const roleSQL = `SELECT COALESCE(/*M! (SELECT QUOTE(ROLE_NAME) FROM information_schema.APPLICABLE_ROLES
 WHERE IS_DEFAULT = 'YES' LIMIT 1), 'NONE' */
 /*!80000 IF(@@activate_all_roles_on_login, 'ALL', 'DEFAULT') */),
 IF(@@SESSION.sql_log_bin, 'DO 0', 'SET SESSION sql_log_bin = 1')`

// saidUse reports whether somebody has said USE on a connection. The server counts it.
func saidUse(ctx context.Context, ask func(context.Context, string, ...any) *sql.Row) (bool, error) {
	var name, times string
	err := ask(ctx, "SHOW SESSION STATUS LIKE 'Com_change_db'").Scan(&name, &times)
	return times != "0", err
}

func (d *driver) CreateTable(ctx context.Context, t relational.Table) error {
	_, err := d.query(ctx, createSQL(t))
	return err
}
