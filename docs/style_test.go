package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retired has the words that this project gave up, each with the word that it uses.
var retired = map[string]string{
	`reigns?`:                             "leadership, term",
	`tenures?`:                            "leadership",
	`beats?`:                              "heartbeat",
	`wish(es)?`:                           "request",
	`(door-?)?bells?`:                     "notification",
	`riders?|ashore`:                      "piggyback",
	`vouch(es|ed|ing)?`:                   "record, verify",
	`glimpses?|glances?`:                  "read, snapshot, observe",
	`sick`:                                "unhealthy",
	`(fail|hand|take)-overs?`:             "failover, handover, takeover",
	`tormented|torments?`:                 "fault",
	`storedecides`:                        "ExpiresInStore",
	`somebody's hand`:                     "edited manually",
	`is no matter`:                        "has no effect",
	`stamps?`:                             "version, numbers",
	`findings?`:                           "diagnostic",
	`doubtful`:                            "markPending, invalidate",
	`rides?|careful`:                      "piggyback, verify",
	`judg(e|es|ed|ing)`:                   "classify",
	`sights?`:                             "read, snapshot, observe",
	`odd(ly)?`:                            "tampered, edited",
	`provers?`:                            "preflight",
	`(is|are|was|were|be|been) let go`:    "is released",
	`leases? (have|has)? ?r[ua]n(s)? out`: "the lease expires",
}

// Of the words that were given up, the test does not know these:
//   - bid, hold, mark, seal, margin, trust, view, watch: the API's own today, in one sense each (Bid, Held, Marker,
//     ClockMargin, trustedUntil, lease.View).
//   - guard, ring, mix, turn, home, line, ref, priority: they also name things that have nothing to do with elections, such as
//     a process that ends another, or a line of a file.
//   - ask, contact, doubt, fold, found, gone, grown, hear, left, let, look, may, move, over, prove, see, silence:
//     everyday English, which no reader stumbles over.

// allowed has the places where a retired word is right.
var allowed = []struct{ file, word, reason string }{
	{"docs/style_test.go", "", "the list itself"},
}

var segments = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// Names and prose use the words of the field: those of etcd, Raft, Kubernetes and database/sql.
func TestNoRetiredWordIsUsed(t *testing.T) {
	var list []string
	for word := range retired {
		list = append(list, word)
	}
	word := regexp.MustCompile(`(?i)(^|[^a-z])(` + strings.Join(list, "|") + `)($|[^a-z])`)
	eachFile(t, func(path, text string) {
		for i, line := range strings.Split(text, "\n") {
			plain := line
			if strings.HasSuffix(path, ".go") { // "readBeat" has the words read and beat
				plain = regexp.MustCompile(`\w+`).ReplaceAllStringFunc(line, func(name string) string {
					return strings.Join(segments.FindAllString(name, -1), " ")
				})
			}
			if m := word.FindStringSubmatch(plain); m != nil && !isAllowed(path, m[2]) {
				t.Errorf("%s:%d: %q is a retired word: %s", path, i+1, m[2], strings.TrimSpace(line))
			}
		}
	})
}

func isAllowed(path, word string) bool {
	for _, a := range allowed {
		if ok, _ := filepath.Match(a.file, path); ok && (a.word == "" || strings.EqualFold(a.word, word)) {
			return true
		}
	}
	return false
}

// eachFile visits the texts of the repository that people write and read.
func eachFile(t *testing.T, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "testdata" || name == "java"):
			return filepath.SkipDir
		case d.IsDir() || name == "chaos.json" || strings.HasSuffix(name, ".zh-CN.md"):
			return nil
		}
		switch filepath.Ext(name) {
		case ".go", ".md", ".sql", ".js", ".html", ".pml", ".yaml", ".yml":
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel("..", path)
			visit(filepath.ToSlash(rel), string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// README and the pages for users have no more words, as wc -w counts them, than before the API for
// 1.0 was written: who adds a sentence deletes another. The pages of stores that came later are not
// counted, since a user reads that of one store, nor are those of the guard and of all options, nor is the table that
// make chaos writes.
func TestThePagesDoNotGrow(t *testing.T) {
	const most = 34_624
	uncounted := []string{"configuration.md", "curator.md", "firefly.md", "guard.md", "kubernetes.md", "postgres.md", "redis.md"}
	written, words := regexp.MustCompile(`(?s)<!-- written by make chaos -->.*?<!-- until here -->`), 0
	for page, text := range pages(t) {
		name := filepath.Base(page)
		switch {
		case page != "../README.md" && filepath.Dir(page) != ".", strings.HasSuffix(name, ".zh-CN.md"), slices.Contains(uncounted, name):
		default:
			words += len(strings.Fields(written.ReplaceAllString(text, "")))
		}
	}
	if words > most || words < most/2 {
		t.Errorf("README.md and docs/*.md have %d words, at most %d are allowed", words, most)
	}
}

// A package comment is a page: what it is, an example, options, limits. Arguments are in
// docs/design.
func TestPackageCommentsAreAPage(t *testing.T) { eachDeclaration(t, packageComments) }

// A function fits on a screen.
func TestFunctionsFitOnAScreen(t *testing.T) { eachDeclaration(t, functionLengths) }

func eachDeclaration(t *testing.T, check func(set *token.FileSet, file *ast.File) []string) {
	t.Helper()
	files := 0
	eachFile(t, func(path, text string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		files++
		for _, problem := range check(set, file) {
			t.Error(problem)
		}
	})
	if files < 100 {
		t.Errorf("only %d files were checked", files)
	}
}

func packageComments(set *token.FileSet, file *ast.File) (problems []string) {
	const most = 60
	if doc := file.Doc; doc != nil {
		from, to := set.Position(doc.Pos()), set.Position(doc.End())
		if lines := to.Line - from.Line + 1; lines > most {
			problems = append(problems, fmt.Sprintf("%s: the package comment has %d lines, at most %d are allowed", from.Filename, lines, most))
		}
	}
	return problems
}

func functionLengths(set *token.FileSet, file *ast.File) (problems []string) {
	const most = 70
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from, to := set.Position(f.Pos()), set.Position(f.End())
		if lines := to.Line - from.Line + 1; lines > most {
			problems = append(problems, fmt.Sprintf("%s: %s has %d lines, at most %d are allowed", from, f.Name.Name, lines, most))
		}
	}
	return problems
}
