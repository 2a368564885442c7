package elect

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// demoCommands are those that only Linux has.
func (a *app) demoCommands() []*cobra.Command {
	var length time.Duration
	c := &cobra.Command{
		Use: "demo", Short: "Show a leader being elected, killed and replaced", Args: cobra.NoArgs,
		Long: `Start five processes on this machine, each an "elect run", on lock files in a directory that
is removed afterwards. Every two seconds the leader is ended: by kill -9 of its elect, then by
kill -9 of its command, then by SIGTERM of its elect. Ended processes are restarted.`,
		Example: "  elect demo --for 5s",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(c.Context(), length)
			defer stop()
			out, ok := a.out.(*os.File)
			return a.runDemo(ctx, ok && isTerminal(out))
		},
	}
	c.Flags().DurationVar(&length, "for", 15*time.Second, "how long to run")
	return []*cobra.Command{c}
}

type node struct {
	name  string
	elect *exec.Cmd
	row   []rune
}

type demo struct {
	out     io.Writer
	live    bool // draw a picture on a terminal
	environ []string
	began   time.Time
	said    *os.File       // where the commands of all nodes write
	ended   chan *node     // whose elect has ended
	running sync.WaitGroup // of nodes
	nodes   []*node
	leader  *node
	term    uint64
	command int       // the process id of the last command that has led
	killed  time.Time // when the last leader was ended; zero while there is a leader
	gaps    []time.Duration
	log     []string
}

func (a *app) runDemo(ctx context.Context, live bool) error {
	dir, err := os.MkdirTemp("", "elect-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	d := &demo{out: a.out, live: live, began: time.Now(), said: write, ended: make(chan *node, 5)}
	lines := make(chan string)
	go func() {
		for s := bufio.NewScanner(read); s.Scan(); {
			lines <- s.Text()
		}
	}()
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ELECTION_") })
	d.environ = append(env, "ELECTION_BACKEND=file", "ELECTION_TTL=2s", "ELECTION_FILE_DIR="+dir)
	d.say("Five processes, one election. The leader is killed every 2s. Lock files: %s", dir)
	nodes, end := context.WithCancel(context.Background())
	defer d.running.Wait()
	defer end()
	for _, name := range []string{"anna", "bert", "cleo", "dora", "emil"} {
		x := &node{name: name}
		d.nodes = append(d.nodes, x)
		if err := d.start(nodes, x); err != nil {
			return err
		}
	}
	picture, kill := time.NewTicker(100*time.Millisecond), time.NewTicker(2*time.Second)
	defer picture.Stop()
	defer kill.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			d.summary()
			return nil
		case x := <-d.ended:
			if err := d.start(nodes, x); err != nil {
				return err
			}
		case line := <-lines:
			if err := d.elected(line); err != nil {
				return err
			}
		case <-kill.C:
			if d.leader != nil {
				d.kill(n)
				n++
			}
		case <-picture.C:
			d.draw()
		}
	}
}

// start starts a node. Its command writes who leads. When ctx ends, the node has 20 seconds to end.
func (d *demo) start(ctx context.Context, x *node) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	const command = `echo "$ELECTION_ID $$ $ELECTION_TERM"; exec sleep 3600`
	cmd := exec.CommandContext(ctx, self, "run", "demo", "--quiet", "--id", x.name, "--", "sh", "-c", command)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Env = d.environ
	cmd.Dir = os.TempDir() // without an election.yaml
	cmd.Stdout, cmd.Stderr = d.said, os.Stderr
	// Ctrl-C must reach only this process, and the nodes end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return err
	}
	x.elect = cmd
	d.running.Go(func() {
		cmd.Wait()
		d.ended <- x
	})
	return nil
}

// elected handles the line of a command. It returns an error if two commands were alive at the same time.
func (d *demo) elected(line string) error {
	var name string
	var pid int
	var term uint64
	if _, err := fmt.Sscan(line, &name, &pid, &term); err != nil {
		return err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.command))
	alive := err == nil && !strings.Contains(string(stat), ") Z ") // a zombie
	if term <= d.term || alive {
		return fmt.Errorf("two leaders: %d in term %d, and %d in term %d", d.command, d.term, pid, term)
	}
	gap := ""
	if !d.killed.IsZero() {
		t := time.Since(d.killed).Round(100 * time.Microsecond)
		d.gaps = append(d.gaps, t)
		gap = fmt.Sprintf(": its command runs %v later", t)
	}
	d.leader = d.nodes[slices.IndexFunc(d.nodes, func(x *node) bool { return x.name == name })]
	d.term, d.killed, d.command = term, time.Time{}, pid
	d.say("%s leads, term %d%s", name, term, gap)
	return nil
}

// kill ends the leader in one of three ways, in turn.
func (d *demo) kill(n int) {
	x := d.leader
	d.killed, d.leader = time.Now(), nil
	switch n % 3 {
	case 0:
		d.say("kill -9 of %s's elect", x.name)
		x.elect.Process.Kill()
	case 1:
		d.say("kill -9 of %s's command", x.name)
		syscall.Kill(d.command, syscall.SIGKILL)
	case 2:
		d.say("%s is asked to end (SIGTERM)", x.name)
		x.elect.Process.Signal(syscall.SIGTERM)
	}
}

// say prints a line, or adds it to the log below the picture.
func (d *demo) say(format string, args ...any) {
	s := fmt.Sprintf("%6.2fs  %s", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
	if !d.live {
		fmt.Fprintln(d.out, s)
		return
	}
	if d.log = append(d.log, s); len(d.log) > 12 {
		d.log = d.log[1:]
	}
}

// draw draws a row for each node, with a column for each tenth of a second.
func (d *demo) draw() {
	const width = 64
	if !d.live {
		return
	}
	var b strings.Builder
	b.WriteString("elect demo   █ leads   · follows\n\n")
	for _, x := range d.nodes {
		mark := '·'
		if x == d.leader {
			mark = '█'
		}
		if x.row = append(x.row, mark); len(x.row) > width {
			x.row = x.row[1:]
		}
		fmt.Fprintf(&b, "  %-5s %s\n", x.name, string(x.row))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(d.log, "\n"))
	// Move home, erase the rest of each line, then all below: no flicker. Meanwhile long lines are cut.
	fmt.Fprint(d.out, "\x1b[?7l\x1b[H", strings.ReplaceAll(b.String(), "\n", "\x1b[K\n"), "\x1b[J\x1b[?7h")
}

func (d *demo) summary() {
	if len(d.gaps) == 0 {
		return
	}
	slices.Sort(d.gaps)
	d.say("%d times without a leader: %v median, %v longest. Never two leaders.",
		len(d.gaps), d.gaps[len(d.gaps)/2], d.gaps[len(d.gaps)-1])
	d.draw()
}
