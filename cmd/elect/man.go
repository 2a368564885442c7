package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// manCommand writes the manual pages, which say what --help says.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages into a directory, which is made if it is not there", Args: cobra.ExactArgs(1), Hidden: true,
		Example: "  elect man .",
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("the manual pages have no directory: %w", err)
			}
			return each(c.Root(), func(c *cobra.Command) error {
				name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
				return os.WriteFile(filepath.Join(args[0], name), []byte(page(c)), 0o644)
			})
		},
	}
}

// each calls f with a command and all below it that people should know.
func each(c *cobra.Command, f func(*cobra.Command) error) error {
	if err := f(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			if err := each(sub, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// roff makes text harmless: what begins with a dot, and backslashes and hyphens.
var roff = strings.NewReplacer(`\`, `\e`, "\n.", "\n\\&.", "\n'", "\n\\&'", "-", `\-`)

func page(c *cobra.Command) string {
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
