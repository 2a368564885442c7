package docs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/lab/testbed"
)

// fragmentFrame surrounds a fragment of a page with the imports and variables that the page assumes.
const fragmentFrame = `package page

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-election/go-election/backend"
	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/electionprom"
	"github.com/go-election/go-election/electionshard"
)

var (
	ctx     context.Context
	store   backend.Backend
	m       *election.Manager
	manager *election.Manager
	e       *election.Election
	dsn     string
	mux     *http.ServeMux
	server  *http.Server
	w       http.ResponseWriter
	err     error
	g       *electionshard.Group
	c       interface{ AddFunc(string, func()) (int, error) }
)

func work(...any) error { return nil }
func bill(...any) error { return nil }
func job(...any) error  { return nil }

func fragment() {
%s
}
`

// TestEveryGoFragmentOnAPageCompiles checks names and types. It skips the code between
// "before" and "after" and fragments with controller-runtime: they use other libraries.
func TestEveryGoFragmentOnAPageCompiles(t *testing.T) {
	before := regexp.MustCompile(`(?ms)^\s*// (?:before|原来)$.*?(^\s*// (?:after|现在)$|\z)`)
	imports := regexp.MustCompile(`(?m)^import .*$`)
	check := checker(t)
	n := 0
	for page, text := range pages(t) {
		for _, b := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatchIndex(text, -1) {
			code := text[b[2]:b[3]]
			if strings.Contains(code, "ctrl.") || strings.HasPrefix(code, "package ") { // a program: see readme_test.go
				continue
			}
			n++
			code = imports.ReplaceAllString(before.ReplaceAllString(code, ""), "")
			for _, err := range check(fmt.Sprintf(fragmentFrame, code)) {
				t.Errorf("%s:%d: %v, in\n%s", page, 1+strings.Count(text[:b[0]], "\n"), err, code)
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d fragments found", n)
	}
}

// checker returns a function that type-checks one file and returns its errors. Unused declarations are no error.
func checker(t *testing.T) func(source string) []error {
	t.Helper()
	fset := token.NewFileSet()
	frame, err := parser.ParseFile(fset, "frame", fmt.Sprintf(fragmentFrame, ""), parser.ImportsOnly)
	testbed.NoError(t, err)
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, i := range frame.Imports {
		args = append(args, strings.Trim(i.Path.Value, `"`))
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	imported := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	return func(source string) (found []error) {
		file, err := parser.ParseFile(fset, "fragment", source, 0)
		if err != nil {
			return []error{err}
		}
		c := types.Config{Importer: imported, Error: func(err error) {
			if e, ok := errors.AsType[types.Error](err); !ok || !e.Soft {
				found = append(found, err)
			}
		}}
		c.Check("page", fset, []*ast.File{file}, nil)
		return found
	}
}

// TestEveryVariableThatAPageNamesExists checks the environment variables of the configuration.
func TestEveryVariableThatAPageNamesExists(t *testing.T) {
	// Variables of the command, not of the library; see package config.
	exists := map[string]bool{"ELECTION_CONFIG": true, "ELECTION_NAME": true, "ELECTION_TERM": true}
	for _, k := range config.Keys() {
		exists[k.Variable], exists[k.FileVariable] = true, true
	}
	for page, text := range pages(t) {
		for _, name := range regexp.MustCompile(`\bELECTION_[A-Z][A-Z_]*[A-Z]\b`).FindAllString(text, -1) {
			if !exists[name] {
				t.Errorf("%s names %s, but the configuration has no such variable", page, name)
			}
		}
	}
}

// Who adds a reason explains it to operators, and on the page of electionhttp.
func TestEveryReasonIsExplained(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		testbed.NoError(t, err)
		return string(text)
	}
	reasons := regexp.MustCompile(`\bReason[A-Za-z]+\s+(?:Reason)?\s*= "([^"]+)"`).FindAllStringSubmatch(read("../election/event.go"), -1)
	if len(reasons) < 20 {
		t.Fatalf("election/event.go has %d reasons: the pattern does not find them", len(reasons))
	}
	for path, mark := range map[string]string{"operations.md": "`", "operations.zh-CN.md": "`", "../electionhttp/page/kit.js": `"`} {
		for _, r := range reasons {
			if !strings.Contains(read(path), mark+r[1]+mark) {
				t.Errorf("%s does not explain the reason %q", path, r[1])
			}
		}
	}
}
