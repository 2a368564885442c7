// Package docs_test checks the pages of this directory against the code.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// TestEveryTestThatAPageNamesExists searches the sources of the whole module for the tests that pages give as evidence.
func TestEveryTestThatAPageNamesExists(t *testing.T) {
	known := readEvidence(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z][^`]*)`")
	subtests := 0
	for page, text := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !known.has(m[1]) {
				t.Errorf("%s names %s as evidence, but there is no such test", page, m[1])
			}
			if strings.Contains(m[1], "/") {
				subtests++
			}
		}
	}
	if subtests == 0 {
		t.Error("no page names a subtest: the pattern does not find them")
	}
}

// An invented function or subtest is not found.
func TestAnInventedTestIsNoEvidence(t *testing.T) {
	known := readEvidence(t)
	for name, want := range map[string]bool{
		"TestMixedFleets":                              true,
		"TestMixedFleets/LeaderLatch":                  true,
		"TestAMixedFleetHasOneLeader/last_seen_active": true, // a layout, by its value
		"TestInvented":                                 false,
		"TestInvented/LeaderLatch":                     false,
		"TestMixedFleets/":                             false,
		"TestMixedFleets/Invented":                     false,
		"TestMixedFleets/LeaderLatch/Invented":         false,
		"TestAMixedFleetHasOneLeader/LeaderLatch":      false, // a word of another package
	} {
		if has := known.has(name); has != want {
			t.Errorf("%s was found: %v; want %v", name, has, want)
		}
	}
}

type evidence struct {
	dirs    map[string][]string        // by test name: the directories that declare it
	strings map[string]map[string]bool // by directory: its string literals, written as names of subtests
}

func readEvidence(t *testing.T) evidence {
	t.Helper()
	e := evidence{map[string][]string{}, map[string]map[string]bool{}}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if e.strings[dir] == nil {
			e.strings[dir] = map[string]bool{}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if strings.HasSuffix(path, "_test.go") && n.Recv == nil {
					e.dirs[n.Name.Name] = append(e.dirs[n.Name.Name], dir)
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					e.strings[dir][strings.ReplaceAll(text, " ", "_")] = true // as t.Run does
				}
			}
			return true
		})
		return nil
	})
	testbed.NoError(t, err)
	return e
}

// has reports whether a test of this name exists. A subtest's name must be a string literal
// in the test's package: in a call, in a table, or as the value of a constant.
func (e evidence) has(name string) bool {
	parts := strings.Split(name, "/")
	return slices.ContainsFunc(e.dirs[parts[0]], func(dir string) bool {
		return !slices.ContainsFunc(parts[1:], func(sub string) bool { return sub == "" || !e.strings[dir][sub] })
	})
}

// TestEveryLinkBetweenPagesLeadsSomewhere checks relative links.
func TestEveryLinkBetweenPagesLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			}
		}
	}
}

// TestEveryHeadingThatALinkNamesExists checks links to sections of pages.
func TestEveryHeadingThatALinkNamesExists(t *testing.T) {
	slug := func(heading string) string {
		heading = strings.ToLower(regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(heading, ""))
		return strings.ReplaceAll(strings.TrimSpace(heading), " ", "-")
	}
	all := pages(t)
	for page, text := range all {
		for _, m := range regexp.MustCompile(`\]\(([^)#\s:]*)#([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			target := page
			if m[1] != "" {
				target = strings.TrimPrefix(filepath.Join(filepath.Dir(page), m[1]), "../docs/")
			}
			found := !strings.HasSuffix(target, ".md")
			for _, h := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(all[target], -1) {
				found = found || slug(h[1]) == m[2]
			}
			if !found {
				t.Errorf("%s links to %s#%s, but the page has no such heading", page, m[1], m[2])
			}
		}
	}
}

func pages(t *testing.T) map[string]string {
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "design/*.md", "../*.md"} {
		paths, err := filepath.Glob(pattern)
		testbed.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			testbed.NoError(t, err)
			all[path] = string(text)
		}
	}
	if len(all) < 4 {
		t.Fatalf("only %d pages found", len(all))
	}
	return all
}
