package elect

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/lab/testbed"
)

// A reader of --help has nothing installed yet. So the test runs each example as it stands, in a
// shell, in an empty directory, with PATH and HOME only.
func TestEveryHelpExampleWorks(t *testing.T) {
	t.Parallel()
	root := (&app{}).root()
	n := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		n++
		if c.Short == "" {
			t.Errorf("%s has no short description", c.CommandPath())
		}
		t.Run(c.CommandPath(), func(t *testing.T) {
			t.Parallel()
			if words := strings.Fields(c.CommandPath()); !strings.Contains(c.Example, words[0]) || !strings.Contains(c.Example, words[len(words)-1]) {
				t.Fatalf("the example does not use the command: %q", c.Example)
			}
			dir := testbed.TempDir(t)
			sh := program(t, []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + dir}, "sh", "-e", "-c", c.Example)
			sh.Dir = dir
			sh.run()
			if code := sh.code(); code != 0 {
				t.Errorf("code %d:\n%s\n%s", code, c.Example, sh.output.String())
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if n < 16 {
		t.Errorf("there are only %d commands", n)
	}
}

func TestCompletionOffersNamesAndNoFiles(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	if out, code := call(t, env, "run", "billing", "--", "true"); code != 0 {
		t.Fatalf("code %d: %s", code, out)
	}
	noFiles := fmt.Sprintf(":%d\n", cobra.ShellCompDirectiveNoFileComp)
	for _, what := range []string{"status", "history", "watch", "depose", "nominate", "serve", "run", "wait", "forget"} {
		if out, code := call(t, env, "__complete", what, ""); code != 0 || !strings.HasPrefix(out, "billing\n"+noFiles) {
			t.Errorf("%s: code %d: %s", what, code, out)
		}
		if out, code := call(t, environ(), "__complete", what, ""); code != 0 || !strings.HasPrefix(out, noFiles) {
			t.Errorf("%s without a store: code %d: %s", what, code, out)
		}
	}
	for _, args := range [][]string{{"status", "billing"}, {"nominate", "billing", "host-1"}, {"list"}, {"doctor"}, {"migrate", "status"}} {
		if out, code := call(t, env, append(append([]string{"__complete"}, args...), "")...); code != 0 || !strings.HasPrefix(out, noFiles) {
			t.Errorf("%q takes no more arguments: code %d: %s", args, code, out)
		}
	}
}

// Whatever the arguments are, elect ends with a code of its own and prints no control characters.
// The arguments are only parsed, and no command is run.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		"run\x00job\x00--\x00true", "run\x00job", "status\x00job", "nominate\x00a\x00b\x00--yes", "watch\x00--for\x001h", "\x1b[2J", "schema\x00--prefix\x00a'b",
		"-c\x00\x00list", "--grace\x00-1s\x00run", "completion\x00bash", "help\x00run", "doctor\x00--json",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		var out bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, diag: &out}
		root := a.root()
		c, rest, err := root.Find(args)
		if err == nil && c != root {
			// Parse and check as Execute does, but do not run the command.
			if err = c.ParseFlags(rest); err == nil {
				err = c.ValidateArgs(c.Flags().Args())
			}
		}
		if err != nil {
			a.fail(err)
		}
		if a.code != 0 && a.code != exitElect {
			t.Errorf("code %d", a.code)
		}
		if strings.ContainsAny(out.String(), "\x1b\x07\x00") {
			t.Errorf("a control character is printed: %q", out.String())
		}
	})
}
