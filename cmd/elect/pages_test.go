package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandOnAPageExists: what the pages show of elect is found, with its flags,
// and whole lines have the arguments that they need.
func TestEveryCommandOnAPageExists(t *testing.T) {
	span, line := regexp.MustCompile("`(?:[A-Z_]+=\\S+ )*elect ([^`\n]+)`"), regexp.MustCompile(`(?m)^(?:\$ )?(?:[A-Z_]+=\S+ )*elect ([a-z].*)$`)
	fence, flag := regexp.MustCompile("(?ms)^```\\w*\n(.*?)^```"), regexp.MustCompile("`--([a-z][a-z-]*)")
	n := 0
	for page, text := range somePages(t) {
		for _, m := range span.FindAllStringSubmatch(text, -1) {
			if n++; !known(m[1], false) {
				t.Errorf("%s shows `elect %s`, and there is no such command, or flag", page, m[1])
			}
		}
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			for _, m := range line.FindAllStringSubmatch(block[1], -1) {
				if n++; !known(m[1], true) {
					t.Errorf("%s shows elect %s, and that would be refused", page, m[1])
				}
			}
		}
		if !strings.HasPrefix(filepath.Base(page), "elect.") {
			continue
		}
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			found := m[1] == "help"
			each((&app{}).root(), func(c *cobra.Command) error {
				found = found || c.Flags().Lookup(m[1]) != nil
				return nil
			})
			if !found {
				t.Errorf("%s names --%s, and no command has that flag", page, m[1])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d commands found", n)
	}
}

func somePages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../../docs/*.md", "../../*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = string(text)
		}
	}
	return all
}

// known reports whether a command is there, with its flags, and if it is whole,
// whether its arguments will do.
func known(text string, whole bool) bool {
	if i := strings.IndexAny(text, "#;&>"); i >= 0 {
		text = text[:i]
	}
	args := strings.Fields(strings.NewReplacer("[", "", "]", "", "…", "").Replace(text))
	if args[0] == "completion" || args[0] == "help" { // cobra's own
		return true
	}
	var said bytes.Buffer
	root := (&app{out: &said, diag: &said}).root()
	c, rest, err := root.Find(args)
	if err != nil || c == root {
		return len(args) > 0 && args[0] == "--help"
	}
	if err := c.ParseFlags(rest); err != nil {
		return strings.Contains(err.Error(), "help requested") || !whole && strings.Contains(err.Error(), "needs an argument")
	}
	return !whole || c.ValidateArgs(c.Flags().Args()) == nil
}
