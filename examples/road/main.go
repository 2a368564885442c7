// Road moves three processes from one store to another and back, one deployment after the other, as
// docs/migrate-from-zookeeper.md describes. In each deployment one process is killed. Each prints when it leads.
//
//	go run ./examples/road
//
// Nothing needs to be installed: both stores are directories. With -config examples/road/road.yaml they are the two that
// are named there, such as that of your Java programs, which take part beside these processes.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

var (
	configured = flag.String("config", "", "a configuration with two stores; default: two directories")
	dir        = flag.String("dir", "", "of a member: the parent of the two directories")
	id         = flag.String("member", "", "be this member")
)

const stageKey = "ELECTION_MIGRATION_STAGE"

func main() {
	flag.Parse()
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	run := deployments
	if *id != "" {
		run = member
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// deployments starts three members, and replaces them one by one: five stages there and back.
func deployments(ctx context.Context) error {
	temp, err := os.MkdirTemp("", "election-road")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	*dir = cmp.Or(*dir, temp)

	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	f := fleet{leads: make(chan migration.Stage, 100)}
	defer f.end()
	for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To, migration.Both, migration.From} {
		log.Printf("deployment: all to %q, one after the other", stage)
		for i := range f.members {
			f.stop(i, i == 1)
			if err := f.start(i, stage); err != nil {
				return err
			}
		}
		for led := migration.Stage(""); led != stage; {
			select {
			case led = <-f.leads:
			case <-ctx.Done():
				return fmt.Errorf("nobody leads at %q: %w", stage, ctx.Err())
			}
		}
	}
	return nil
}

// A fleet is the processes that run, and the stages of those that begin to lead.
type fleet struct {
	members [3]*exec.Cmd
	started int
	leads   chan migration.Stage
}

func (f *fleet) start(i int, stage migration.Stage) error {
	f.started++
	c := exec.Command(os.Args[0], "-member", fmt.Sprint("m", f.started), "-dir", *dir, "-config", *configured)
	c.Env, c.Stderr = append(os.Environ(), stageKey+"="+string(stage)), os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			log.Print(lines.Text())
			if strings.Contains(lines.Text(), " leads") {
				f.leads <- stage
			}
		}
	}()
	f.members[i] = c
	return c.Start()
}

// stop ends a member, in order or by kill -9.
func (f *fleet) stop(i int, kill bool) {
	c := f.members[i]
	if c == nil || c.Process == nil {
		return
	}
	end := syscall.SIGTERM
	if kill {
		log.Printf("kill -9 %s", c.Args[2])
		end = syscall.SIGKILL
	}
	c.Process.Signal(end)
	c.Wait()
}

func (f *fleet) end() {
	for i := range f.members {
		f.stop(i, false)
	}
}

// member takes part until ctx ends. Only open knows of the migration.
func member(ctx context.Context) error {
	slog.SetLogLoggerLevel(slog.LevelError)
	m, err := open(ctx, migration.Stage(os.Getenv(stageKey)))
	if err != nil {
		return err
	}
	e, err := m.Join("demo")
	if err != nil {
		return err
	}
	err = e.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
		fmt.Printf("  %s, at %q, leads in term %d\n", *id, os.Getenv(stageKey), l.Term)
		<-ctx.Done()
		return nil
	})
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, m.Close(end))
}

func open(ctx context.Context, stage migration.Stage) (*election.Manager, error) {
	if *configured != "" {
		return config.Open(ctx, *configured)
	}
	from, err := file.Open(file.Options{Dir: filepath.Join(*dir, "old")})
	if err != nil {
		return nil, err
	}
	to, err := file.Open(file.Options{Dir: filepath.Join(*dir, "new")})
	if err != nil {
		return nil, err
	}
	store, err := migration.New(migration.Options{From: from, FromName: "old", To: to, ToName: "new", Stage: stage})
	if err != nil {
		return nil, err
	}
	return election.New(store, election.Options{ID: *id, TTL: 5 * time.Second})
}
