package mysql

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// forbidden has words that no statement may contain, with the reason.
var forbidden = map[string]string{
	`\bIGNORE\b`:         "it turns errors into wrong data",
	`\bON DUPLICATE\b`:   "its order of assignment and its row counts differ between servers",
	`\bREPLACE\b`:        "it removes the row, and its term with it",
	`\bDELETE\b`:         "a removed row forgets its term",
	`\bTRUNCATE\b`:       "a removed row forgets its term",
	`\bAUTO_INCREMENT\b`: "it is used up by statements that add nothing",
	`\bLAST_INSERT_ID\b`: "not all servers return it",
	`\bSYSDATE\b`:        "it differs within a statement and between replicas",
	`\bNOW\b`:            "it is in the session's time zone",
	`\bCURRENT_TIME`:     "it is in the session's time zone",
	`\bUNIX_TIMESTAMP\b`: "it depends on the session's time zone",
	`\bTIMESTAMP\b[^'(]`: "a TIMESTAMP column moves with the time zone and ends in 2038",
	`"`:                  "a string in double quotes is a name under ANSI_QUOTES",
	`\\`:                 "a backslash means nothing under NO_BACKSLASH_ESCAPES",
	`\bVALUES\s*\(\w+\)`: "it is deprecated, and its replacement is a syntax error elsewhere",
}

var looksLikeSQL = regexp.MustCompile(`^\s*\(?(SELECT|INSERT|UPDATE|SET|SHOW|START|COMMIT|ROLLBACK|KILL|CREATE|IF\(| UNION)\b`)

func TestNoStatementContainsAForbiddenWord(t *testing.T) {
	texts := map[string]string{}
	for i, s := range (tables{lease: "`l`", term: "`t`", member: "`m`"}).createStatements() {
		texts["schema.sql, statement "+strconv.Itoa(i+1)] = regexp.MustCompile(`COMMENT '[^']*'|CREATE TABLE IF NOT EXISTS`).ReplaceAllString(s, "")
	}
	set := token.NewFileSet()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if s, err := strconv.Unquote(lit.Value); err == nil && looksLikeSQL.MatchString(s) {
				texts[set.Position(lit.Pos()).String()] = s
			}
			return true
		})
	}
	if len(texts) < 30 {
		t.Fatalf("only %d statements found; this test does not find them all", len(texts))
	}
	for where, s := range texts {
		for word, why := range forbidden {
			if m := regexp.MustCompile(word).FindString(strings.ToUpper(s)); m != "" {
				t.Errorf("%s contains %q: %s\n%s", where, m, why, s)
			}
		}
	}
}

func TestNoStatementReadsAColumnThatItAssigns(t *testing.T) {
	assign := regexp.MustCompile(`(?i)\b(\w*\.?\w+) = `)
	for _, template := range allTemplates {
		_, set, ok := strings.Cut(template, "SET ")
		if !ok || strings.HasPrefix(template, "SET") {
			continue
		}
		set, _, _ = strings.Cut(set, "WHERE")
		columns := assign.FindAllStringSubmatch(set, -1)
		for _, c := range columns {
			right := strings.ReplaceAll(assign.ReplaceAllString(set, ""), "{server}", "")
			if regexp.MustCompile(`\b` + regexp.QuoteMeta(c[1]) + `\b`).MatchString(right) {
				t.Errorf("%s is assigned and read; servers and SQL modes differ in which value is seen:\n%s", c[1], template)
			}
		}
	}
}

func TestEveryTemplateIsFilledIn(t *testing.T) {
	s := newStatements(tables{lease: "`l`", term: "`t`", member: "`m`"}, mysqlIdentity)
	for template, text := range s.text {
		for _, hole := range []string{"{lease}", "{term}", "{member}", "{server}"} {
			if strings.Contains(text, hole) {
				t.Errorf("%s is left in %s", hole, template)
			}
		}
	}
}
