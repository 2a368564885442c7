package elect

import (
	"strings"

	"github.com/spf13/cobra"
)

// The beginnings of the examples in --help. Each example works when it is pasted into a shell
// in an empty directory, without configuration and without a server.
const (
	onStore  = `export ELECTION_BACKEND=file ELECTION_FILE_DIR="$PWD/leases"   # or any other store`
	withRun  = onStore + "\nelect run billing --id host-1 -- sleep 60 &\n"
	aLeader  = withRun + "until elect status billing; do sleep 0.2; done\n"
	endOfRun = "\nkill $!; wait"
)

// example indents lines, as cobra prints examples.
func example(lines string) string { return "  " + strings.ReplaceAll(lines, "\n", "\n  ") }

// addCobraExamples adds examples to the commands that cobra provides.
func addCobraExamples(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	examples := map[string]string{
		"completion": "elect completion bash > elect.bash",
		"bash":       "elect completion bash > elect.bash   # then: source elect.bash",
		"zsh":        "elect completion zsh > _elect   # in a directory of fpath",
		"fish":       "elect completion fish > elect.fish   # in ~/.config/fish/completions",
		"powershell": "elect completion powershell > elect.ps1   # then: . ./elect.ps1",
		"help":       "elect help run\nelect help migrate status",
	}
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			c.Example = example(examples[c.Name()])
			for _, sub := range c.Commands() {
				sub.Example = example(examples[sub.Name()])
			}
		}
	}
}
