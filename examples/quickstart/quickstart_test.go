package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
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
		servers := os.Getenv("ELECTION_TEST_ZOOKEEPER_SERVERS")
		if servers == "" { // the shared server has short ticks, which limit sessions
			servers = testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{Config: []string{"maxSessionTimeout=40000"}}).Addr()
		}
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
	if err := mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""); err != nil {
		t.Fatal(err)
	}
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
	if err := mysqltable.CreateTables(t.Context(), admin, "", ""); err != nil {
		t.Fatal(err)
	}
	return []string{"ELECTION_MYSQLTABLE_DSN=" + d.User.FormatDSN()}
}

var (
	elected  = regexp.MustCompile(`(?m)(\w+) leads, term (\d+)`)
	crash    = regexp.MustCompile(`leads, term \d+: (\S+) after the kill`)
	handover = regexp.MustCompile(`leads, term \d+: (\S+) after the request`)
)

// One binary runs on every store, selected by one word of its configuration: in the file, or
// in the environment.
func TestOneWordSelectsTheStore(t *testing.T) {
	testbed.Full(t, "kills and stops processes")
	binary := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, name := range backend.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setUp := stores[name]
			if setUp == nil {
				t.Fatalf("this test has no server for %s", name)
			}
			environ := setUp(t)
			began := time.Now()
			out := run(t, binary, configWith(t, name), environ)
			t.Logf("%v\n%s", time.Since(began).Round(100*time.Millisecond), out)
			check(t, name, out)
		})
	}
	t.Run("where there is no store", func(t *testing.T) {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = append(os.Environ(), "ELECTION_BACKEND=mysql", "ELECTION_MYSQL_DSN=u:hunter2@tcp(127.0.0.1:1)/x", "ELECTION_TTL=1s")
		out, err := cmd.CombinedOutput()
		for _, want := range []string{"is the store there?", "connection refused", "nobody leads after"} {
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%v; the output lacks %q:\n%s", err, want, out)
			}
		}
		if strings.Contains(string(out), "hunter2") {
			t.Errorf("the output shows the password:\n%s", out)
		}
	})
	t.Run("by the environment", func(t *testing.T) {
		t.Parallel()
		check(t, "memory", run(t, binary, "election.yaml", []string{"ELECTION_BACKEND=memory"}))
	})
}

// configWith is election.yaml with one word changed.
func configWith(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("election.yaml")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^backend: \w+`)
	if n := len(line.FindAll(text, -1)); n != 1 {
		t.Fatalf("election.yaml has %d lines that choose a store", n)
	}
	changed := line.ReplaceAll(text, []byte("backend: "+name))
	file := filepath.Join(t.TempDir(), "election.yaml")
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func run(t *testing.T, binary, file string, environ []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-config", file)
	cmd.Env = append(os.Environ(), environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// check fails unless the output has the expected leaders, with growing terms.
func check(t *testing.T, name, out string) {
	t.Helper()
	leaderships := elected.FindAllStringSubmatch(out, -1)
	want := map[string]int{"memory": 2, "manual": 1}[name]
	if want == 0 {
		want = 3
	}
	if len(leaderships) != want {
		t.Fatalf("%d leaderships, want %d:\n%s", len(leaderships), want, out)
	}
	for i, r := range leaderships {
		for _, earlier := range leaderships[:i] {
			if r[1] == earlier[1] || len(r[2]) < len(earlier[2]) || r[2] <= earlier[2] {
				t.Errorf("%s leads in term %s after %s in term %s:\n%s", r[1], r[2], earlier[1], earlier[2], out)
			}
		}
	}
	if !strings.Contains(out, `"`+name+`"`) {
		t.Errorf("the output does not name the store:\n%s", out)
	}
	if crash.MatchString(out) != (want == 3) || handover.MatchString(out) != (want > 1) {
		t.Errorf("the output lacks the crash or the handover:\n%s", out)
	}
}

// The candidates end with the process that started them, even after kill -9.
func TestNoProcessIsLeftBehind(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	testbed.Full(t, "kills and stops processes")
	binary := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(binary)
	// There is no store, so all three campaign for longer than the test needs to find them.
	cmd.Env = append(os.Environ(), "ELECTION_BACKEND=mysql", "ELECTION_MYSQL_DSN=u@tcp(127.0.0.1:1)/x", "ELECTION_TTL=1m", "ELECTION_MYSQL_MAX_TTL=1m")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 2*time.Minute, "the candidates run", func() error { return running(binary, 4) })
	cmd.Process.Kill()
	cmd.Wait()
	testbed.Eventually(t, 2*time.Minute, "all have ended", func() error { return running(binary, 0) })
}

// running returns nil if exactly n processes run this binary.
func running(binary string, n int) error {
	names, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return err
	}
	found := 0
	for _, name := range names {
		if program, err := os.Readlink(name); err == nil && program == binary {
			found++
		}
	}
	if found != n {
		return fmt.Errorf("%d processes run, want %d", found, n)
	}
	return nil
}

// One word is enough because every store already has a section.
func TestTheConfigurationHasASectionForEveryStore(t *testing.T) {
	text, err := os.ReadFile("election.yaml")
	if err != nil {
		t.Fatal(err)
	}
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
