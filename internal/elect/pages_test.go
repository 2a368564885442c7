package elect

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// Every command and flag of elect that the documentation shows exists. Complete command lines
// also have the arguments that the command requires.
func TestEveryCommandInTheDocsExists(t *testing.T) {
	span, line := regexp.MustCompile("`(?:[A-Z_]+=\\S+ )*elect ([^`\n]+)`"), regexp.MustCompile(`(?m)^(?:\$ )?(?:[A-Z_]+=\S+ )*elect ([a-z].*)$`)
	fence, flag := regexp.MustCompile("(?ms)^```\\w*\n(.*?)^```"), regexp.MustCompile("`--([a-z][a-z-]*)")
	n := 0
	for page, text := range documentation(t) {
		for _, m := range span.FindAllStringSubmatch(text, -1) {
			if n++; !isCommand(m[1], false) {
				t.Errorf("%s shows `elect %s`, but there is no such command or flag", page, m[1])
			}
		}
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			for _, m := range line.FindAllStringSubmatch(block[1], -1) {
				if n++; !isCommand(m[1], true) {
					t.Errorf("%s shows elect %s, which elect would refuse", page, m[1])
				}
			}
		}
		if !strings.HasPrefix(filepath.Base(page), "elect.") {
			continue
		}
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			if m[1] != "help" && m[1] != "version" && !hasFlag((&app{}).root(), m[1]) {
				t.Errorf("%s names --%s, but no command has that flag", page, m[1])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d commands found", n)
	}
}

// hasFlag reports whether a command, or one below it, has a flag.
func hasFlag(c *cobra.Command, name string) bool {
	return c.Flags().Lookup(name) != nil || slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return hasFlag(sub, name) })
}

func documentation(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../../docs/*.md", "../../*.md"} {
		paths, err := filepath.Glob(pattern)
		testbed.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			testbed.NoError(t, err)
			all[path] = string(text)
		}
	}
	return all
}

// isCommand reports whether text is a command of elect with flags that exist. If text is a
// complete command line, its arguments must be valid too.
func isCommand(text string, complete bool) bool {
	if i := strings.IndexAny(text, "#;&>"); i >= 0 {
		text = text[:i]
	}
	args := strings.Fields(strings.NewReplacer("[", "", "]", "", "…", "").Replace(text))
	if args[0] == "completion" || args[0] == "help" { // provided by cobra
		return true
	}
	var output bytes.Buffer
	root := (&app{out: &output, diag: &output}).root()
	c, rest, err := root.Find(args)
	if err != nil || c == root {
		return len(args) > 0 && args[0] == "--help"
	}
	if err := c.ParseFlags(rest); err != nil {
		return strings.Contains(err.Error(), "help requested") || !complete && strings.Contains(err.Error(), "needs an argument")
	}
	return !complete || c.ValidateArgs(c.Flags().Args()) == nil
}

// The time line on the pages has the timings that "elect run" has by default.
func TestTheTimeLineHasTheDefaultTimings(t *testing.T) {
	o, err := election.Options{ID: "a"}.Complete(backend.Guarantees{})
	testbed.NoError(t, err)
	l, err := limits{}.complete(o)
	testbed.NoError(t, err)
	trusted := o.TTL - o.ClockMargin
	var want []string
	for _, at := range []time.Duration{o.RenewEvery, o.RenewEvery + o.CallTimeout, trusted - l.reserve - l.grace, trusted - l.reserve, trusted} {
		want = append(want, fmt.Sprintf("%.1f", at.Seconds()))
	}
	for _, page := range []string{"elect.md", "elect.zh-CN.md"} {
		text := documentation(t)[filepath.Join("../../docs", page)]
		m := regexp.MustCompile("<!-- time line -->\n```\n0 s (.*) " + fmt.Sprint(o.TTL.Seconds()) + " s\n").FindStringSubmatch(text)
		if m == nil || !slices.Equal(strings.Fields(m[1]), want) {
			t.Errorf("%s has the times %q, want %v", page, m, want)
		}
		for name, d := range map[string]time.Duration{"--grace": l.grace, "--reserve": l.reserve, "clock_margin": o.ClockMargin} {
			if !regexp.MustCompile("`" + name + "`[(（]?[^`]{0,20}" + fmt.Sprintf("%.1f", d.Seconds())).MatchString(text) {
				t.Errorf("%s does not say that %s is %.1f s", page, name, d.Seconds())
			}
		}
	}
}
