package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-election/go-election/internal/relational"
)

// surveySQL asks for the schema of the connection, and for all schemas that have a table of the name. {scope} is a
// condition for schemas. A schema is written as the server keeps it.
const surveySQL = `SELECT COALESCE(DATABASE(), ''), NULL, CURRENT_USER() UNION ALL
 SELECT i.TABLE_SCHEMA, i.TABLE_SCHEMA = DATABASE(), NULL FROM information_schema.TABLES i WHERE i.TABLE_NAME = {name} AND {scope}`

// Survey implements [relational.Dialect]. A server has the tables of many programs. So other schemas than that of the
// connection matter only if somebody else may have selected it: on a connection of the program's own pool.
func (d *driver) Survey(ctx context.Context) (s relational.Survey, err error) {
	scope := "i.TABLE_SCHEMA = DATABASE()"
	if d.Table.Schema != "" {
		scope = "i.TABLE_SCHEMA = " + hexText(d.Table.Schema)
	} else if !d.ownDB {
		scope = "true"
		s.Doubt = "the DB is the program's own, and another part of the program may have selected this schema by USE"
	}
	rows, err := d.query(ctx, func() []string {
		return []string{strings.NewReplacer("{name}", hexText(d.Table.Prefix+"_item"), "{scope}", scope).Replace(surveySQL)}
	})
	if err != nil {
		return s, err
	}

	s.Default = string(rows[0][0])
	who := string(rows[0][2])
	s.Where = fmt.Sprintf("what the account %q may see of this server", who)
	for _, row := range rows[1:] {
		s.Found = append(s.Found, string(row[0]))
		if string(row[1]) == "1" {
			s.Default = string(row[0])
		}
	}
	if len(s.Found) == 0 && s.Default != "" { // or the account may not see it
		t := d.Table
		t.Schema = s.Default
		at := max(0, strings.LastIndexByte(who, '@')) // nothing is quoted, and no host has an @
		s.Hint = "; an administrator can make and grant what is needed: " + createSQL(t) + " " + grant(memberRights, t.String(), account(who[:at], strings.TrimPrefix(who[at:], "@")))
	}
	if s.Doubt != "" && !slices.Contains(s.Found, s.Default) {
		d.dropIdle() // the next one may not have been told
	}
	return s, nil
}

// CreateTable implements [relational.Dialect]. The view is not needed, and may be there.
func (d *driver) CreateTable(ctx context.Context, t relational.Table) error {
	_, err := d.query(ctx, func() []string { return []string{createSQL(t)} })
	if err == nil {
		d.query(ctx, func() []string { return []string{fill(strings.TrimSuffix(viewSQL, ";"), t)} })
	}
	return err
}

// quoted returns a name as a statement has it.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
