// Package elect is the command elect. cmd/elect links it with all stores of this module, and
// backend/kubernetes/cmd/elect with Kubernetes too.
package elect

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

// guardName is argument 0 with which elect starts itself as the guard.
const guardName = "elect-guard"

// Exit codes of elect itself. "elect run" otherwise passes on the code of its command.
const (
	exitVacant      = 1   // "elect status NAME": there is no leader; "elect doctor": there is a problem
	exitTimeout     = 124 // it has waited for as long as it may, as timeout(1)
	exitElect       = 125 // elect failed
	exitNotRunnable = 126
	exitNotFound    = 127
)

// A PodLabel keeps a label with this key on this process's pod while e is led here. stop removes it.
type PodLabel func(e *election.Election, key string) (stop func(context.Context) error, err error)

// Main is the main function of the command. Without label, "elect run" refuses --pod-label.
func Main(label PodLabel) {
	config.RunGuard()
	if os.Args[0] == guardName {
		os.Exit(guardMain(os.Args))
	}
	a := &app{in: os.Stdin, out: os.Stdout, diag: os.Stderr, label: label}
	os.Exit(a.main(context.Background(), os.Args[1:]))
}

// An app is one invocation of elect.
type app struct {
	in        io.Reader
	out, diag io.Writer
	file      string // the configuration
	asJSON    bool   // --json
	yes       bool   // --yes
	label     PodLabel
	code      int
}

func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		// The text may quote a store or the arguments.
		fmt.Fprintln(a.diag, "elect:", clean.Text(err.Error(), 8192, true))
		a.code = cmp.Or(a.code, exitElect)
	}
	return a.code
}

func (a *app) root() *cobra.Command {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	root := &cobra.Command{
		Use:   "elect",
		Short: "Elect one leader among processes, on the store you already run",
		Long: `Elect one leader among processes, on the store you already run. There may be no leader for a
short time. There are never two leaders.

Elect reads the same configuration as the library: a file (-c, else ELECTION_CONFIG, else
election.yaml in the working directory, if it exists), overridden by environment variables
(ELECTION_BACKEND, ELECTION_TTL, ELECTION_MYSQL_DSN, …).`,
		Example: example("elect demo --for 5s\n" + onStore + `
elect run billing -- sh -c 'echo "term $ELECTION_TERM"'
elect status`),
		SilenceErrors: true, SilenceUsage: true,
		Version: fmt.Sprintf("%s, %s %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH),
	}
	root.SetOut(a.out)
	root.SetErr(a.diag)
	root.PersistentFlags().StringVarP(&a.file, "config", "c", "", "read the configuration from `file`")
	root.AddCommand(a.runCommand(), a.statusCommand(), a.historyCommand(), a.watchCommand(), a.waitCommand())
	root.AddCommand(a.serveCommand(), a.nominateCommand(), a.deposeCommand(), a.forgetCommand())
	root.AddCommand(a.doctorCommand(), a.schemaCommand(), a.migrateCommand())
	root.AddCommand(a.demoCommands()...)
	addUsage(root)
	return root
}

// The beginnings of the examples in --help. Each works in a shell in an empty directory, without a server.
const (
	onStore  = `export ELECTION_BACKEND=file ELECTION_FILE_DIR="$PWD/leases"   # or any other store`
	withRun  = onStore + "\nelect run billing --id host-1 -- sleep 60 &\n"
	aLeader  = withRun + "until elect status billing; do sleep 0.2; done\n"
	endOfRun = "\nkill $!; wait"
)

// example indents lines, as cobra prints examples.
func example(lines string) string { return "  " + strings.ReplaceAll(lines, "\n", "\n  ") }

// addUsage makes a wrong number of arguments show the right one.
func addUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return fmt.Errorf("%w; usage: %s", err, c.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		addUsage(sub)
	}
}

// load reads the configuration. It also sets ELECTION_CONFIG to the file's absolute path, for the processes
// that elect starts.
func (a *app) load() (*config.Config, error) {
	file := cmp.Or(a.file, os.Getenv("ELECTION_CONFIG"))
	if _, err := os.Stat("election.yaml"); file == "" && err == nil {
		file = "election.yaml"
	}
	if file != "" {
		if abs, err := filepath.Abs(file); err == nil {
			os.Setenv("ELECTION_CONFIG", abs)
		}
	}
	c, err := config.Load(file, config.Options{})
	if err == nil {
		c.Election.Logger = slog.New(slog.DiscardHandler) // elect prints events itself
	}
	return c, err
}

func (a *app) json(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func (a *app) addJSON(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.asJSON, "json", false, "write JSON")
	return c
}

func (a *app) addYes(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

// table returns a writer of columns that tabs separate. Flush writes them, two cells apart.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// confirm asks the operator before a change, unless --yes is set. Without a terminal it is an error.
func (a *app) confirm(format string, args ...any) error {
	if a.yes {
		return nil
	}
	if f, ok := a.in.(*os.File); !ok || !isTerminal(f) {
		return errors.New("elect asks before it changes this, and there is no terminal; pass --yes")
	}
	fmt.Fprintf(a.diag, format+"\nContinue? [y/N] ", args...)
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("cancelled; nothing has changed")
	}
	return nil
}

// echoTime is for how long a signal that comes again is the same event: timeout(1) sends it to its child, and
// then to the whole process group.
const echoTime = 500 * time.Millisecond

// untilSignal returns a context that ends at SIGINT or SIGTERM, or after limit if that is not 0. A second
// signal ends elect at once.
func untilSignal(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(echoTime, stop) })
	if limit == 0 {
		return ctx, stop
	}
	return context.WithTimeout(ctx, limit)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
