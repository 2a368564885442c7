package config_test

import (
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-election/go-election/config"
)

// The package documentation is the reference: it has a row for each key, with its
// type, and no row for what is none.
func TestEachKeyIsInTheReference(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(f.Doc.Text(), "# Keys")
	rows := make(map[string]string)
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "\t") && fields[0] != "key" {
			rows[fields[0]] = line
		}
	}
	var keys []string
	for _, k := range config.Keys(nil) {
		if strings.HasPrefix(k.Name, "probe.") {
			continue
		}
		keys = append(keys, k.Name)
		if row, ok := rows[k.Name]; !ok || !strings.Contains(row, k.Type) {
			t.Errorf("config/doc.go has no row for %s (%s): %q", k.Name, k.Type, row)
		}
	}
	for key := range rows {
		if !slices.Contains(keys, key) {
			t.Errorf("config/doc.go has a row for %s, which is no key", key)
		}
	}
}

// What the documents show, the program takes.
func TestTheExamplesInTheDocumentsAreAccepted(t *testing.T) {
	for _, file := range []string{"../README.md", "../README.zh-CN.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no configuration", file)
		}
		for _, b := range blocks {
			if _, err := config.Parse(file, b[1], &config.Options{Environ: []string{}}); err != nil {
				t.Error(err)
			}
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	text := f.Doc.Text()
	from, to := strings.Index(text, "\tbackend: mysql"), strings.Index(text, "A program knows the stores")
	if from < 0 || to < from {
		t.Fatal("doc.go shows no configuration")
	}
	if _, err := config.Parse("doc.go", []byte(strings.ReplaceAll(text[from:to], "\t", "")), &config.Options{Environ: []string{}}); err != nil {
		t.Error(err)
	}
}
