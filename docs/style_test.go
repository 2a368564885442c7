package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
}

// A package comment is a page: what it is, an example, options, limits. Only that of a protocol carries its argument,
// under headings.
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
	most := 60
	if file.Name.Name == "lease" {
		most = 130
	}
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
