package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	var length, every time.Duration
	c := &cobra.Command{
		Use: "demo", Short: "See a leader elected, killed and replaced; nothing to install or to configure", Args: cobra.NoArgs,
		Long: `Start five processes on this machine, each an "elect run" of its own, on lock files in a
directory that is removed afterwards. The leader is killed every few seconds: in turn its
elect (kill -9), its command (kill -9), and its elect in order (SIGTERM). Those who died
come back. On a terminal there is a picture; in a pipe, a line for each event.`,
		Example: "  elect demo --for 5s",
		RunE: func(c *cobra.Command, _ []string) error {
			if every < 500*time.Millisecond {
				return fmt.Errorf("--every is %v; it must be 500ms at least", every)
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			context.AfterFunc(ctx, stop) // a second signal ends elect at once
			out, ok := a.out.(*os.File)
			return a.demo(ctx, length, every, ok && isTerminal(out))
		},
		Hidden: !canRun,
	}
	c.Flags().DurationVar(&length, "for", 15*time.Second, "how long, from when somebody leads")
	c.Flags().DurationVar(&every, "every", 2*time.Second, "how long a leader lives")
	return c
}

var actors = []string{"anna", "bert", "cleo", "dora", "emil"}

// An actor is one process of the demonstration.
type actor struct {
	name    string
	elect   *exec.Cmd
	command int // the process that runs only while it leads
	row     []rune
}

// A line is what a command said, or (pid 0) that its elect has ended.
type line struct {
	who  string
	pid  int
	term uint64
	at   time.Time
}

// A play is a demonstration under way.
type play struct {
	out     io.Writer
	live    bool
	environ []string
	began   time.Time
	lines   chan line
	actors  map[string]*actor
	leader  *actor
	term    uint64
	former  int       // the command that led last, or does
	killed  time.Time // the last leader; zero: somebody leads
	gaps    []time.Duration
	said    []string
}

func (a *app) demo(ctx context.Context, length, every time.Duration, live bool) error {
	dir, err := os.MkdirTemp("", "elect-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := &play{out: a.out, live: live, began: time.Now(), lines: make(chan line, 100), actors: map[string]*actor{}}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ELECTION_") {
			p.environ = append(p.environ, v)
		}
	}
	p.environ = append(p.environ, "ELECTION_BACKEND=file", "ELECTION_TTL=2s", "ELECTION_FILE_DIR="+filepath.Join(dir, "leases"), "XDG_RUNTIME_DIR="+dir)
	p.say("Five processes, one election, lock files in %s. The leader is killed every %v.", dir, every)
	defer p.end()
	for _, name := range actors {
		if err := p.start(name); err != nil {
			return err
		}
	}
	picture, kill := time.NewTicker(100*time.Millisecond), time.NewTicker(every)
	defer picture.Stop()
	defer kill.Stop()
	over := time.NewTimer(length + time.Minute) // if nobody ever leads
	defer over.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return p.summary()
		case <-over.C:
			return p.summary()
		case l := <-p.lines:
			first := p.term == 0
			if err := p.hear(l); err != nil {
				return err
			}
			if first && p.term != 0 {
				over.Reset(length)
				kill.Reset(every)
			}
		case <-kill.C:
			if p.leader != nil {
				p.kill(n)
				n++
			}
		case <-picture.C:
			p.draw()
		}
	}
}

// start starts an actor: "elect run" with a command that says that it leads.
func (p *play) start(name string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "run", "demo", "--quiet", "--id", name, "--", "sh", "-c", `echo "$$ $ELECTION_TERM"; exec sleep 3600`)
	cmd.Env = p.environ
	cmd.Dir = os.TempDir() // where no election.yaml is meant for us
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = ownGroup() // Ctrl-C is ours
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	x := p.actors[name]
	if x == nil {
		x = &actor{name: name}
		p.actors[name] = x
	}
	x.elect, x.command = cmd, 0
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			pid, term, _ := strings.Cut(s.Text(), " ")
			l := line{who: name, at: time.Now()}
			l.pid, _ = strconv.Atoi(pid)
			l.term, _ = strconv.ParseUint(term, 10, 64)
			p.lines <- l
		}
		cmd.Wait()
		p.lines <- line{who: name}
	}()
	return nil
}

func (p *play) hear(l line) error {
	x := p.actors[l.who]
	if l.pid == 0 { // it comes back
		if p.leader == x {
			p.leader = nil
		}
		return p.start(l.who)
	}
	if l.term <= p.term {
		// They write into pipes of their own, which are read in no order.
		if l.term == p.term || alive(l.pid) {
			return fmt.Errorf("process %d leads in term %d after one in term %d: this must never happen, please report it", l.pid, l.term, p.term)
		}
		return nil
	}
	x.command = l.pid
	gap := ""
	if !p.killed.IsZero() {
		d := l.at.Sub(p.killed).Round(100 * time.Microsecond)
		p.gaps = append(p.gaps, d)
		gap = fmt.Sprintf(": its command runs %v later", d)
	}
	if alive(p.former) {
		return fmt.Errorf("process %d of term %d is alive, and %d leads in term %d: this must never happen, please report it", p.former, p.term, l.pid, l.term)
	}
	p.leader, p.term, p.killed, p.former = x, l.term, time.Time{}, l.pid
	p.say("%s leads, term %d%s", l.who, l.term, gap)
	return nil
}

// alive reports whether a process is there; who is only not yet reaped is not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// kill kills the leader in the n-th way.
func (p *play) kill(n int) {
	x := p.leader
	p.killed, p.leader = time.Now(), nil
	switch n % 3 {
	case 0:
		p.say("kill -9 of %s's elect", x.name)
		x.elect.Process.Kill()
	case 1:
		p.say("kill -9 of %s's command", x.name)
		if c, err := os.FindProcess(x.command); err == nil {
			c.Kill()
		}
	case 2:
		p.say("%s is asked to end (SIGTERM)", x.name)
		x.elect.Process.Signal(syscall.SIGTERM)
	}
}

func (p *play) say(format string, args ...any) {
	s := fmt.Sprintf("%6.2fs  %s", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
	if !p.live {
		fmt.Fprintln(p.out, s)
		return
	}
	if p.said = append(p.said, s); len(p.said) > 12 {
		p.said = p.said[1:]
	}
}

// draw shows a row for each process, a column for each tenth of a second.
func (p *play) draw() {
	const width = 64
	if !p.live {
		return
	}
	var b strings.Builder
	b.WriteString("elect demo   █ leads   · follows\n\n")
	for _, name := range actors {
		x := p.actors[name]
		mark := '·'
		if x == p.leader {
			mark = '█'
		}
		if x.row = append(x.row, mark); len(x.row) > width {
			x.row = x.row[1:]
		}
		fmt.Fprintf(&b, "  %-5s %s\n", name, string(x.row))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(p.said, "\n"))
	show(p.out, b.String())
}

func (p *play) summary() error {
	if len(p.gaps) == 0 {
		if p.term == 0 {
			return errors.New("nobody was elected")
		}
		return nil
	}
	times := "times"
	if len(p.gaps) == 1 {
		times = "time"
	}
	p.say("%d %s without a leader: %v in the middle, %v at worst. Never two.", len(p.gaps), times, median(p.gaps), slices.Max(p.gaps))
	if p.live {
		fmt.Fprintln(p.out, p.said[len(p.said)-1])
	}
	return nil
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

// end ends all and waits for them.
func (p *play) end() {
	for _, x := range p.actors {
		x.elect.Process.Signal(syscall.SIGTERM)
	}
	limit := time.After(20 * time.Second)
	for n := 0; n < len(p.actors); {
		select {
		case l := <-p.lines:
			if l.pid == 0 {
				n++
			}
		case <-limit:
			for _, x := range p.actors {
				x.elect.Process.Kill()
			}
			return
		}
	}
}
