package elect

import (
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
	if n < 15 {
		t.Errorf("there are only %d commands", n)
	}
}
