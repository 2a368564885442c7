package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// What examples of --help begin with. Each works as it stands, pasted into a shell in
// an empty directory, with nothing configured and nothing to install.
const (
	onStore  = `export ELECTION_BACKEND=file ELECTION_FILE_DIR="$PWD/leases"   # or any other store`
	withRun  = onStore + "\nelect run billing --id host-1 -- sleep 60 &\n"
	aLeader  = withRun + "until elect status billing; do sleep 0.2; done\n"
	endOfRun = "\nkill $!; wait"
)

// example makes lines an example.
func example(lines string) string { return "  " + strings.ReplaceAll(lines, "\n", "\n  ") }

// explainOthers gives examples to the commands that are not ours but cobra's.
func explainOthers(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	where := map[string]string{
		"completion": "elect completion bash > elect.bash",
		"bash":       "elect completion bash > elect.bash   # then: source elect.bash",
		"zsh":        "elect completion zsh > _elect   # in a directory of fpath",
		"fish":       "elect completion fish > elect.fish   # in ~/.config/fish/completions",
		"powershell": "elect completion powershell > elect.ps1   # then: . ./elect.ps1",
		"help":       "elect help run\nelect help migrate status",
	}
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			c.Example = example(where[c.Name()])
			for _, sub := range c.Commands() {
				sub.Example = example(where[sub.Name()])
			}
		}
	}
}
