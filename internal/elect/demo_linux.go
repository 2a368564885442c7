package elect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// demoCommands are those that only Linux has.
func (a *app) demoCommands() []*cobra.Command {
	var length, every time.Duration
	c := &cobra.Command{
		Use: "demo", Short: "Show a leader being elected, killed and replaced, without installation or configuration", Args: cobra.NoArgs,
		Long: `Start five processes on this machine, each an "elect run", on lock files in a directory that
is removed afterwards. Every few seconds the leader is ended: first by kill -9 of its elect, then by
kill -9 of its command, then in order by SIGTERM of its elect. Ended processes are restarted. On
a terminal the demo shows a picture; in a pipe, a line for each event.`,
		Example: "  elect demo --for 5s",
		RunE: func(c *cobra.Command, _ []string) error {
			if every < 500*time.Millisecond {
				return fmt.Errorf("--every is %v; it must be at least 500ms", every)
			}
			ctx, stop := untilSignal(c.Context(), 0)
			defer stop()
			out, ok := a.out.(*os.File)
			return a.runDemo(ctx, length, every, ok && isTerminal(out))
		},
	}
	c.Flags().DurationVar(&length, "for", 15*time.Second, "how long to run, from the first leader on")
	c.Flags().DurationVar(&every, "every", 2*time.Second, "how long each leader leads")
	return []*cobra.Command{c}
}

type node struct {
	name    string
	elect   *exec.Cmd
	command int // the process id of its command
	row     []rune
}

// A message says that the command of a node has started, or, with pid 0, that the node has ended.
type message struct {
	node *node
	pid  int
	term uint64
	at   time.Time
}

type demo struct {
	out      io.Writer
	live     bool // draw a picture on a terminal
	environ  []string
	began    time.Time
	messages chan message
	running  sync.WaitGroup // of nodes
	nodes    []*node
	leader   *node
	term     uint64
	command  int       // the process id of the last command that has led
	killed   time.Time // when the last leader was ended; zero while there is a leader
	gaps     []time.Duration
	log      []string
}

func (a *app) runDemo(ctx context.Context, length, every time.Duration, live bool) error {
	dir, err := os.MkdirTemp("", "elect-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &demo{out: a.out, live: live, began: time.Now(), messages: make(chan message, 100)}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ELECTION_") {
			d.environ = append(d.environ, v)
		}
	}
	d.environ = append(d.environ, "ELECTION_BACKEND=file", "ELECTION_TTL=2s", "ELECTION_FILE_DIR="+filepath.Join(dir, "leases"))
	d.say("Five processes, one election. The leader is killed every %v. Lock files: %s", every, dir) // a narrow terminal cuts the end
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
	picture, kill := time.NewTicker(100*time.Millisecond), time.NewTicker(every)
	defer picture.Stop()
	defer kill.Stop()
	over := time.NewTimer(length + time.Minute) // if no leader is elected
	defer over.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return d.summary()
		case <-over.C:
			return d.summary()
		case msg := <-d.messages:
			first := d.term == 0
			if err := d.handle(nodes, msg); err != nil {
				return err
			}
			if first && d.term != 0 {
				over.Reset(length)
				kill.Reset(every)
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

// start starts a node. Its command prints its process id and term. When ctx ends, the node has 20 seconds
// to end.
func (d *demo) start(ctx context.Context, x *node) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	const command = `echo "$$ $ELECTION_TERM"; exec sleep 3600`
	cmd := exec.CommandContext(ctx, self, "run", "demo", "--quiet", "--id", x.name, "--", "sh", "-c", command)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Env = d.environ
	cmd.Dir = os.TempDir() // without an election.yaml
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must reach only this process
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	x.elect, x.command = cmd, 0
	d.running.Go(func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			pid, term, _ := strings.Cut(s.Text(), " ")
			msg := message{node: x, at: time.Now()}
			msg.pid, _ = strconv.Atoi(pid)
			msg.term, _ = strconv.ParseUint(term, 10, 64)
			d.messages <- msg
		}
		cmd.Wait()
		d.messages <- message{node: x}
	})
	return nil
}

// handle handles a message. It returns an error if two commands were alive at the same time.
func (d *demo) handle(nodes context.Context, msg message) error {
	x := msg.node
	if msg.pid == 0 { // restart it
		if d.leader == x {
			d.leader = nil
		}
		return d.start(nodes, x)
	}
	if msg.term <= d.term {
		// Messages of different nodes come in no particular order.
		if msg.term == d.term || alive(msg.pid) {
			return fmt.Errorf("process %d leads in term %d after one in term %d: this must never happen, please report it", msg.pid, msg.term, d.term)
		}
		return nil
	}
	x.command = msg.pid
	gap := ""
	if !d.killed.IsZero() {
		t := msg.at.Sub(d.killed).Round(100 * time.Microsecond)
		d.gaps = append(d.gaps, t)
		gap = fmt.Sprintf(": its command runs %v later", t)
	}
	if alive(d.command) {
		return fmt.Errorf("process %d of term %d is alive, and %d leads in term %d: this must never happen, please report it", d.command, d.term, msg.pid, msg.term)
	}
	d.leader, d.term, d.killed, d.command = x, msg.term, time.Time{}, msg.pid
	d.say("%s leads, term %d%s", x.name, msg.term, gap)
	return nil
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
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
		if c, err := os.FindProcess(x.command); err == nil {
			c.Kill()
		}
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
	// Move home, erase the rest of each line, then everything below. Erasing the whole screen first would flicker.
	// Meanwhile the terminal cuts lines that are too long, and does not wrap them.
	fmt.Fprint(d.out, "\x1b[?7l\x1b[H", strings.ReplaceAll(b.String(), "\n", "\x1b[K\n"), "\x1b[J\x1b[?7h")
}

func (d *demo) summary() error {
	if len(d.gaps) == 0 {
		if d.term == 0 {
			return errors.New("no process was elected")
		}
		return nil
	}
	d.say("%s without a leader: %v median, %v longest. Never two leaders.", counted(len(d.gaps), "time", "times"), median(d.gaps), slices.Max(d.gaps))
	if d.live {
		fmt.Fprintln(d.out, d.log[len(d.log)-1])
	}
	return nil
}

func median(times []time.Duration) time.Duration {
	times = slices.Clone(times)
	slices.Sort(times)
	return times[len(times)/2]
}
