// Elect is the command of this module: it runs a program only while this process
// leads, shows who leads, and does what an operator asks for, on any of the stores.
//
//	elect run billing -- ./bill
//
// "elect --help" says the rest.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/go-election/go-election/backend"
	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
)

// Exit codes of our own, where a command's is passed on: as env and docker have them.
const (
	exitElect       = 125 // elect failed
	exitNotRunnable = 126
	exitNotFound    = 127
)

func main() {
	if os.Args[0] == guardName {
		os.Exit(guardMain(os.Args))
	}
	a := &app{in: os.Stdin, out: os.Stdout, diag: os.Stderr}
	os.Exit(a.main(context.Background(), os.Args[1:]))
}

// An app is one call of the command.
type app struct {
	in        io.Reader
	out, diag io.Writer
	file      string // the configuration
	code      int
}

// main runs the command and returns the exit code.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		a.fail(err)
	}
	return a.code
}

// fail says what went wrong. The error may quote a store, or the arguments.
func (a *app) fail(err error) {
	fmt.Fprintln(a.diag, "elect:", backend.Clean(err.Error(), 8192, true))
	if a.code == 0 {
		a.code = exitElect
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "elect",
		Short: "Elect one leader among processes, on the store you already run",
		Long: `Elect one leader among processes, on the store you already run: run a program only
while it leads, see who leads, hand over, and have the store checked.

The configuration is that of the library: a file (-c, else ELECTION_CONFIG, else
election.yaml in this directory if it is there) and the environment over it
(ELECTION_BACKEND, ELECTION_TTL, ELECTION_MYSQL_DSN, …). A short time without a leader
is allowed. Two leaders never are.`,
		Example: example("elect demo --for 5s\n" + onStore + `
elect run billing -- sh -c 'echo "term $ELECTION_TERM"'
elect list`),
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.diag)
	root.PersistentFlags().StringVarP(&a.file, "config", "c", "", "the configuration `file`")
	root.AddCommand(a.runCommand())
	root.AddCommand(a.statusCommands()...)
	root.AddCommand(a.watchCommand(), a.forgetCommand(), a.serveCommand(), a.doctorCommand(), a.schemaCommand(), a.migrateCommand(), a.demoCommand(), a.manCommand(), a.versionCommand())
	root.AddCommand(a.requestCommands()...)
	root.AddCommand(a.localCommands()...)
	explainOthers(root)
	a.complete(root)
	return root
}

// load reads the configuration.
func (a *app) load() (*config.Config, error) {
	file := a.file
	if file == "" {
		file = os.Getenv("ELECTION_CONFIG")
	}
	if file == "" {
		if _, err := os.Stat("election.yaml"); err == nil {
			file = "election.yaml"
		}
	}
	if file != "" {
		if abs, err := filepath.Abs(file); err == nil {
			os.Setenv("ELECTION_CONFIG", abs) // for what we start
		}
	}
	c, err := config.Load(file, nil)
	if err == nil {
		c.Election.Logger = slog.New(slog.DiscardHandler) // elect itself says what happens
	}
	return c, err
}

// json writes a value for programs.
func (a *app) json(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// confirm asks before a change. Without a terminal nobody is there to say yes.
func (a *app) confirm(format string, args ...any) error {
	if f, ok := a.in.(*os.File); !ok || !isTerminal(f) {
		return errors.New("this changes who leads; say --yes (there is no terminal to ask on)")
	}
	fmt.Fprintf(a.diag, format+"\nGo on? [y/N] ", args...)
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// isTerminal reports whether somebody may sit at f.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
