package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// text returns a file of the repository, by its path from the root.
func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile("../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// recipe returns the commands of a target of the Makefile.
func recipe(t *testing.T, target string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + target + `:.*\n((?:\t.*\n)+)`).FindStringSubmatch(text(t, "Makefile"))
	if m == nil {
		t.Fatalf("the Makefile has no target %s", target)
	}
	return m[1]
}

// README's first command and "make demo" are the same.
func TestMakeDemoIsTheFirstCommand(t *testing.T) {
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		m := regexp.MustCompile("(?s)```\ngit clone .*?\n(.*?)\n```").FindStringSubmatch(text(t, page))
		if m == nil {
			t.Fatalf("%s has no block that begins with git clone", page)
		}
		if !strings.HasSuffix(recipe(t, "demo"), "\t@"+m[1]+"\n") {
			t.Errorf("%s begins with %q, and make demo runs\n%s", page, m[1], recipe(t, "demo"))
		}
	}
}
