package docs_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/go-election/go-election/lab/testbed"
)

// text returns a file of the repository, by its path from the root.
func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile("../" + path)
	testbed.NoError(t, err)
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

// The workflow runs what .ci/run runs, each target as a job.
func TestTheWorkflowRunsTheTargetsOfCI(t *testing.T) {
	var workflow struct {
		Jobs struct {
			Make struct {
				Strategy struct{ Matrix struct{ Target []string } }
				Steps    []struct{ Run string }
			}
		}
	}
	testbed.NoError(t, yaml.Unmarshal([]byte(text(t, ".github/workflows/ci.yml")), &workflow))
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^make (\w+)$`).FindAllStringSubmatch(text(t, ".ci/run"), -1) {
		want = append(want, m[1])
	}
	made := workflow.Jobs.Make
	if !slices.Equal(made.Strategy.Matrix.Target, want) || made.Steps[len(made.Steps)-1].Run != "make ${{ matrix.target }}" {
		t.Errorf("the workflow makes %v by %+v, and .ci/run makes %v", made.Strategy.Matrix.Target, made.Steps, want)
	}
}

// The examples that people copy have at most 60 lines in a file, besides comments and blank lines.
func TestExamplesToCopyFitOnAPage(t *testing.T) {
	for _, name := range []string{"quickstart/main.go", "worker/main.go", "shards/main.go", "shards/table.go"} {
		lines := 0
		for line := range strings.Lines(text(t, "examples/"+name)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		if lines > 60 {
			t.Errorf("examples/%s has %d lines", name, lines)
		}
	}
}
