package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/mysqltable"
	"github.com/go-election/go-election/lab/testbed"
)

// stores returns the environment that points to a real server of each store. The rest of
// the configuration is election.yaml, unchanged.
var stores = map[string]func(t *testing.T) (environ []string){
	"consul": func(t *testing.T) []string {
		return []string{"ELECTION_CONSUL_ADDRESS=" + testbed.SharedConsul(t).URL(), "ELECTION_CONSUL_PREFIX=" + rand.Text()}
	},
	"etcd": func(t *testing.T) []string {
		return []string{"ELECTION_ETCD_ENDPOINTS=" + strings.Join(testbed.SharedEtcd(t), ","), "ELECTION_ETCD_PREFIX=" + rand.Text() + "/"}
	},
	"file":      onFile,
	"manual":    func(*testing.T) []string { return nil },
	"memory":    func(*testing.T) []string { return nil },
	"migration": func(t *testing.T) []string { return append(onFile(t), onMySQL(t)...) },
	"curator": func(t *testing.T) []string {
		// The shared server has short ticks, which limit sessions.
		servers := testbed.StartZooKeeper(t, testbed.Options{Args: []string{"maxSessionTimeout=40000"}}).Addr()
		return []string{"ELECTION_CURATOR_SERVERS=" + servers, "ELECTION_CURATOR_ROOT=/" + rand.Text()}
	},
	"mysql":      onMySQL,
	"mysqltable": onMySQLTable,
	"postgres": func(t *testing.T) []string {
		return []string{"ELECTION_POSTGRES_DSN=" + testbed.SharedPostgres(t).Database(t).DSN("")}
	},
	"redis": func(t *testing.T) []string {
		return []string{"ELECTION_REDIS_ADDRESSES=" + testbed.SharedRedis(t).Addr(), "ELECTION_REDIS_PREFIX=" + rand.Text()}
	},
	"s3": func(t *testing.T) []string {
		return []string{"ELECTION_S3_ENDPOINT=" + testbed.SharedS3(t).URL(), "ELECTION_S3_BUCKET=" + testbed.S3Bucket, "ELECTION_S3_PREFIX=" + rand.Text() + "/",
			"AWS_ACCESS_KEY_ID=" + testbed.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + testbed.S3SecretKey}
	},
	"zookeeper": func(t *testing.T) []string {
		return []string{"ELECTION_ZOOKEEPER_SERVERS=" + strings.Join(testbed.SharedZooKeeper(t), ","), "ELECTION_ZOOKEEPER_ROOT=/" + rand.Text()}
	},
}

func onFile(t *testing.T) []string {
	return []string{"ELECTION_FILE_DIR=" + filepath.Join(testbed.TempDir(t), "election")}
}

func onMySQL(t *testing.T) []string {
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""))
	return []string{"ELECTION_MYSQL_DSN=" + d.User.FormatDSN()}
}

func onMySQLTable(t *testing.T) []string {
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	admin := testbed.OpenDB(t, d.Admin)
	if _, err := admin.ExecContext(t.Context(), `CREATE TABLE leader_election (
		service_id varchar(50) NOT NULL DEFAULT '', leader_id varchar(50) NOT NULL DEFAULT '',
		update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (service_id)) ENGINE=InnoDB`); err != nil {
		t.Fatal(err)
	}
	testbed.NoError(t, mysql.CreateTables(t.Context(), admin, "", mysqltable.DefaultPrefix))
	return []string{"ELECTION_MYSQLTABLE_DSN=" + d.User.FormatDSN()}
}

// One binary runs on every store, selected by one word of its configuration. When the leader is killed, another process
// takes over; when that one is asked to end, the third does.
func TestOneWordSelectsTheStore(t *testing.T) {
	testbed.Full(t, "kills and stops processes")
	binary := build(t)
	for _, name := range backend.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setUp := stores[name]
			if setUp == nil {
				t.Fatalf("this test has no server for %s", name)
			}
			file, environ := configWith(t, name), setUp(t)
			var all []*process
			for _, id := range []string{"anna", "bert", "cleo"} {
				all = append(all, start(t, binary, file, id, environ...))
			}
			first := leader(t, all, 0)
			if name == "memory" || name == "manual" { // one process alone, and the one that the configuration names
				return
			}
			first.cmd.Process.Kill()
			second := leader(t, all, first.term)
			second.cmd.Process.Signal(os.Interrupt)
			leader(t, all, second.term)
		})
	}
}

type process struct {
	cmd  *exec.Cmd
	log  string
	term uint64 // in which it has led
}

func build(t *testing.T) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

func start(t *testing.T, binary, file, id string, environ ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, "-config", file), log: filepath.Join(t.TempDir(), id)}
	p.cmd.Env = append(append(os.Environ(), "ELECTION_ID="+id), environ...)
	log, err := os.Create(p.log)
	testbed.NoError(t, err)
	defer log.Close()
	p.cmd.Stderr = log
	testbed.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", id, p.output(t))
		}
	})
	return p
}

func (p *process) output(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.log)
	testbed.NoError(t, err)
	return string(text)
}

var leads = regexp.MustCompile(`I lead, in term (\d+)`)

func leader(t *testing.T, all []*process, term uint64) (leader *process) {
	t.Helper()
	testbed.Eventually(t, 2*time.Minute, fmt.Sprintf("one leads after term %d", term), func() error {
		for _, p := range all {
			said := leads.FindAllStringSubmatch(p.output(t), -1)
			if len(said) == 0 {
				continue
			}
			if p.term, _ = strconv.ParseUint(said[len(said)-1][1], 10, 64); p.term > term {
				leader = p
				return nil
			}
		}
		return errors.New("none does")
	})
	return leader
}

// configWith is election.yaml with one word changed.
func configWith(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("election.yaml")
	testbed.NoError(t, err)
	line := regexp.MustCompile(`(?m)^backend: \w+`)
	if n := len(line.FindAll(text, -1)); n != 1 {
		t.Fatalf("election.yaml has %d lines that choose a store", n)
	}
	changed := line.ReplaceAll(text, []byte("backend: "+name))
	file := filepath.Join(t.TempDir(), "election.yaml")
	testbed.NoError(t, os.WriteFile(file, changed, 0o600))
	return file
}

// One word is enough because every store already has a section.
func TestTheConfigurationHasASectionForEveryStore(t *testing.T) {
	text, err := os.ReadFile("election.yaml")
	testbed.NoError(t, err)
	choice := regexp.MustCompile(`(?m)^backend: .*`).FindString(string(text))
	for _, name := range backend.Names() {
		if !strings.Contains(choice, name) {
			t.Errorf("%s is not among the choices: %s", name, choice)
		}
		if name != "memory" && !regexp.MustCompile(`(?m)^`+name+`:`).Match(text) {
			t.Errorf("there is no section for %s", name)
		}
	}
}
