package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

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
	testbed.NoError(t, err)
}

// A package comment is a page: what it is, an example, options, limits. Only that of a protocol carries its argument,
// under headings. A function fits on a screen.
func TestCommentsFitOnAPageAndFunctionsOnAScreen(t *testing.T) {
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
		lines := func(n ast.Node) int { return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1 }

		most := 60
		if file.Name.Name == "lease" {
			most = 130
		}
		if file.Doc != nil && lines(file.Doc) > most {
			t.Errorf("%s: the package comment has %d lines, at most %d are allowed", path, lines(file.Doc), most)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && lines(f) > 70 {
				t.Errorf("%s: %s has %d lines, at most 70 are allowed", path, f.Name.Name, lines(f))
			}
		}
	})
	if files < 100 {
		t.Errorf("only %d files were checked", files)
	}
}
