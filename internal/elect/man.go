package elect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// manCommand writes the manual pages. Their text is that of --help.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages into a directory, and create the directory if needed", Args: cobra.ExactArgs(1), Hidden: true,
		Example: "  elect man .",
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create the directory of the manual pages: %w", err)
			}
			return forEachCommand(c.Root(), func(c *cobra.Command) error {
				name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
				return os.WriteFile(filepath.Join(args[0], name), []byte(manPage(c)), 0o644)
			})
		},
	}
}

// forEachCommand calls f with c and with all its subcommands, without hidden ones and those
// of cobra.
func forEachCommand(c *cobra.Command, f func(*cobra.Command) error) error {
	if err := f(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			if err := forEachCommand(sub, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// roff escapes what roff would interpret: a dot or an apostrophe at the start of a line,
// backslashes and hyphens.
var roff = strings.NewReplacer(`\`, `\e`, "\n.", "\n\\&.", "\n'", "\n\\&'", "-", `\-`)

func manPage(c *cobra.Command) string {
	var b strings.Builder
	title := strings.ToUpper(strings.ReplaceAll(c.CommandPath(), " ", "-"))
	long := c.Long
	if long == "" {
		long = c.Short
	}
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n%s\n",
		roff.Replace(title), roff.Replace(strings.ToLower(title)), roff.Replace(c.Short), roff.Replace(c.UseLine()), strings.ReplaceAll(roff.Replace(long), "\n\n", "\n.PP\n"))
	flags := func(heading, usages string) {
		if usages != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s.fi\n", heading, roff.Replace(usages))
		}
	}
	flags("OPTIONS", c.NonInheritedFlags().FlagUsages())
	flags("OPTIONS OF ALL COMMANDS", c.InheritedFlags().FlagUsages())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff.Replace(c.Example))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff.Replace(sub.Name()), roff.Replace(sub.Short))
			}
		}
	}
	return b.String()
}
