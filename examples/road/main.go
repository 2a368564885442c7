// Road moves three processes from one store to another and back, one deployment after the other, as
// docs/migrate-from-zookeeper.md describes. Each deployment kills one process. They print when they lead.
//
//	go run ./examples/road
//
// Nothing needs to be installed: both stores are directories. With -config examples/road/road.yaml they are
// the two that are named there, such as that of your Java programs, which take part beside these processes.
package main

import (
	"bufio"
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
func deployments(ctx context.Context) (err error) {
	if *dir, err = os.MkdirTemp("", "election-road"); err != nil {
		return err
	}
	defer os.RemoveAll(*dir)
	said, say, err := os.Pipe() // what the members print
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, func() { said.SetReadDeadline(time.Now()) })()

	lines := bufio.NewScanner(said)
	fleet := [3]*exec.Cmd{}
	signals := [3]os.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} // that end them
	defer func() {
		for _, c := range fleet {
			end(c, syscall.SIGTERM)
		}
	}()
	for deployment, stage := range []string{"from", "both", "to", "both", "from"} {
		log.Printf("deployment: all to %q, one after the other", stage)
		for i := range fleet {
			end(fleet[i], signals[i])
			name := fmt.Sprint("m", 3*deployment+i+1)
			c := exec.Command(os.Args[0], "-member", name, "-dir", *dir, "-config", *configured)
			c.Env, c.Stdout, c.Stderr = append(os.Environ(), stageKey+"="+stage), say, os.Stderr
			if err := c.Start(); err != nil {
				return err
			}
			fleet[i] = c
		}
		for led := false; !led; led = strings.Contains(lines.Text(), fmt.Sprintf("at %q, leads", stage)) {
			if !lines.Scan() {
				return fmt.Errorf("nobody leads at %q: %w", stage, lines.Err())
			}
			log.Print(lines.Text())
		}
	}
	return nil
}

// end ends a member, in order or by kill -9.
func end(c *exec.Cmd, signal os.Signal) {
	if c == nil {
		return
	}
	log.Printf("%s is sent %q", c.Args[2], signal)
	c.Process.Signal(signal)
	c.Wait()
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
	o := migration.Options{From: from, FromName: "old", To: to, ToName: "new", Stage: stage}
	store, err := migration.New(o)
	if err != nil {
		return nil, err
	}
	return election.New(store, election.Options{ID: *id, TTL: 5 * time.Second})
}
