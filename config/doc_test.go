package config_test

import (
	"cmp"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/lab/testbed"
)

const reference = "../docs/configuration.md"

// The reference has a line for each key, with the key's type unless it is a string, and no line for a key
// that does not exist.
func TestEachKeyIsInTheReference(t *testing.T) {
	text, err := os.ReadFile(reference)
	testbed.NoError(t, err)
	_, tables, _ := strings.Cut(string(text), "\n## Keys of every store\n")
	rows := make(map[string]string) // from a key to the type in its line
	for _, m := range regexp.MustCompile("(?m)^- `([^`]+)`(?:, ([^(:]+?))?(?: \\(.*?\\))?: ").FindAllStringSubmatch(tables, -1) {
		if rows[m[1]] != "" {
			t.Errorf("%s has two lines for %s", reference, m[1])
		}
		rows[m[1]] = cmp.Or(m[2], "a string")
	}
	var keys []string
	for _, k := range config.Keys() {
		if strings.HasPrefix(k.Name, "probe.") {
			continue
		}
		keys = append(keys, k.Name)
		if kind := rows[k.Name]; kind != k.Type {
			t.Errorf("%s has the type %q for %s, want %q", reference, kind, k.Name, k.Type)
		}
	}
	for key := range rows {
		if !slices.Contains(keys, key) && !strings.HasPrefix(key, "kubernetes.") { // a module of its own, which compares them
			t.Errorf("%s has a line for %s, which is not a key", reference, key)
		}
	}
}

func TestExamplesInTheDocsAreAccepted(t *testing.T) {
	for _, file := range []string{"../README.md", "../README.zh-CN.md", reference} {
		text, err := os.ReadFile(file)
		testbed.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no configuration", file)
		}
		for _, b := range blocks {
			if _, err := config.Parse(file, b[1], config.Options{Environ: []string{}}); err != nil {
				t.Error(err)
			}
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	testbed.NoError(t, err)
	text := f.Doc.Text()
	from, to := strings.Index(text, "\tbackend: mysql"), strings.Index(text, "A program knows the stores")
	if from < 0 || to < from {
		t.Fatal("doc.go shows no configuration")
	}
	if _, err := config.Parse("doc.go", []byte(strings.ReplaceAll(text[from:to], "\t", "")), config.Options{Environ: []string{}}); err != nil {
		t.Error(err)
	}
}
