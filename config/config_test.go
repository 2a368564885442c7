package config_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// parse reads a text and these variables, and nothing of the real environment.
func parse(text string, environ ...string) (*config.Config, error) {
	return config.Parse("election.yaml", []byte(text), config.Options{Environ: append([]string{}, environ...)})
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	testbed.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestManagersOfOneConfigurationShareAStore(t *testing.T) {
	text := "backend: memory\nttl: 30s\n" // long, so that no leader misses it on a busy machine
	var won int
	for range 2 {
		c, err := parse(text)
		testbed.NoError(t, err)
		m, err := c.Open(t.Context())
		testbed.NoError(t, err)
		t.Cleanup(func() { m.Close(t.Context()) })
		e, err := m.Join(t.Name())
		testbed.NoError(t, err)
		lead, err := e.Try(t.Context())
		if err != nil && !errors.Is(err, election.ErrNotElected) {
			t.Fatal(err)
		}
		if lead != nil {
			won++
			t.Cleanup(func() { lead.Resign(t.Context()) })
		}
	}
	if won != 1 {
		t.Errorf("%d of two candidates on one store lead, want 1", won)
	}
}

func TestAllManagerKeysReachItsOptions(t *testing.T) {
	c, err := parse(`
backend: memory
id: anna
address: anna.example:8080
metadata: "zone: b"
ttl: 20s
renew_every: 4s
call_timeout: 3s
clock_margin: 5s
failover_delay: 1s
incumbent_grace: 2s
step_down_timeout: 1m
priority: 7
reclaim: 30s
observer: true
`)
	testbed.NoError(t, err)
	want := election.Options{
		ID: "anna", Address: "anna.example:8080", Metadata: "zone: b",
		TTL: 20 * time.Second, RenewEvery: 4 * time.Second, CallTimeout: 3 * time.Second, ClockMargin: 5 * time.Second,
		FailoverDelay: time.Second, IncumbentGrace: 2 * time.Second, StepDownTimeout: time.Minute,
		Priority: 7, Reclaim: 30 * time.Second, Observer: true,
	}
	for i, v := 0, reflect.ValueOf(want); i < v.NumField(); i++ {
		if f := v.Type().Field(i); v.Field(i).IsZero() && !slices.Contains([]string{"Health", "Guard", "Logger"}, f.Name) {
			t.Errorf("this test does not set %s", f.Name)
		}
	}
	if got := fmt.Sprintf("%+v", c.Election); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %s\nwant %+v", got, want)
	}
	if err := c.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheEnvironmentOverridesTheFile(t *testing.T) {
	c, err := parse("backend: mysql\nttl: 20s\nid: anna\n", "ELECTION_TTL=30s", "ELECTION_BACKEND=memory", "ELECTION_ID=", "TTL=1s")
	testbed.NoError(t, err)
	if c.Backend != "memory" || c.Election.TTL != 30*time.Second {
		t.Errorf("%s, %v", c.Backend, c.Election.TTL)
	}
	if c.Election.ID != "anna" {
		t.Errorf("an empty variable hides the file: id is %q", c.Election.ID)
	}
}

func TestTheEnvironmentAloneIsEnough(t *testing.T) {
	for what, text := range map[string]string{"nothing": "", "comments": "# nothing\n\n", "a marker": "---\n", "null": "~\n"} {
		c, err := parse(text, "ELECTION_BACKEND=memory")
		if err != nil || c.Backend != "memory" {
			t.Errorf("%s: %v", what, err)
		}
	}
	t.Setenv("ELECTION_BACKEND", "memory")
	m, err := config.Open(t.Context(), "")
	testbed.NoError(t, err)
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each row has a mistake and what its message must contain: the place, the key, the value, and what is allowed.
func TestEachMistakeIsDescribed(t *testing.T) {
	const ok = "backend: memory\n"
	for what, c := range map[string]struct {
		text    string
		environ []string
		want    []string
	}{
		"unknown key":                     {ok + "replicas: 3\n", nil, []string{"election.yaml:2:", `"replicas"`, "renew_every", "mysql"}},
		"unknown key of a section":        {ok + "mysql:\n  dns: x\n", nil, []string{"election.yaml:3: mysql:", `"dns"`, "known are: create_tables, dsn,"}},
		"unknown key of an empty section": {ok + "memory:\n  size: 3\n", nil, []string{"election.yaml:3: memory:", `"size"`, "known are: "}},
		"key twice":                       {ok + "ttl: 3s\nttl: 4s\n", nil, []string{"election.yaml:3:", `"ttl"`, "second time", "line 2"}},
		"section twice":                   {ok + "mysql: {}\nmysql: {}\n", nil, []string{"election.yaml:3:", `"mysql"`, "line 2"}},
		"no unit":                         {ok + "ttl: 10\n", nil, []string{"election.yaml:2: ttl:", `"10" has no unit`, "10s"}},
		"no duration":                     {ok + "ttl: soon\n", nil, []string{"election.yaml:2: ttl:", `"soon"`, "10s"}},
		"no switch":                       {ok + "observer: yes\n", nil, []string{"election.yaml:2: observer:", `"yes"`, "true or false"}},
		"no number":                       {ok + "redis: {wait_replicas: many}\n", nil, []string{"election.yaml:2: redis.wait_replicas:", `"many"`, "whole number"}},
		"a list for a text":               {ok + "id: [a, b]\n", nil, []string{"election.yaml:2: id:", "a string", "a list"}},
		"a text for a section":            {ok + "mysql: app@tcp(db)/app\n", nil, []string{"election.yaml:2: mysql:", "a section"}},
		"no backend":                      {"ttl: 3s\n", nil, []string{"election.yaml: backend:", "ELECTION_BACKEND", "memory, migration, mysql"}},
		"an unknown backend":              {"backend: mysqk\n", nil, []string{"election.yaml:1: backend:", `"mysqk"`, "memory, migration, mysql"}},
		"a variable without unit":         {ok, []string{"ELECTION_TTL=10"}, []string{"config: ELECTION_TTL:", `"10" has no unit`}},
		"a variable misspelt":             {ok, []string{"ELECTION_MYSQL_DNS=x"}, []string{"ELECTION_MYSQL_DNS:", "rename it", "leave it out of config.Options"}},
		"an empty variable misspelt":      {ok, []string{"ELECTION_MYSQL_DNS="}, []string{"ELECTION_MYSQL_DNS:"}},
		"a variable with quotes":          {ok, []string{`ELECTION_ID="anna"`}, []string{"config: ELECTION_ID:", "quotes around it"}},
		"a variable with a blank":         {ok, []string{"ELECTION_FILE_DIR=/srv/a "}, []string{"ELECTION_FILE_DIR:", "blank", "_file"}},
		"a shell's variable":              {ok + "file: {dir: \"/srv/${APP:-x}\"}\n", nil, []string{"election.yaml:2: file.dir:", "${…}", "_file"}},
		"a variable of a pod":             {ok, []string{"ELECTION_ETCD_ENDPOINTS=http://$(ETCD):2379"}, []string{"ELECTION_ETCD_ENDPOINTS[0]:", "$(…)"}},
		"a template of Helm or Ansible":   {ok + "file: {dir: \"/srv/{{ .Values.app }}\"}\n", nil, []string{"election.yaml:2: file.dir:", "{{…}}"}},
		"a template's missing value":      {ok, []string{"ELECTION_FILE_DIR=/srv/<no value>"}, []string{"ELECTION_FILE_DIR:", "<no value>"}},
		"a tab":                           {ok + "mysql:\n\tdsn: x\n", nil, []string{"election.yaml:", "not YAML", "a tab"}},
		"no YAML":                         {ok + "mysql: {dsn: x\n", nil, []string{"election.yaml:", "not YAML"}},
		"no keys":                         {"memory\n", nil, []string{"election.yaml:1:", "must be a section with keys, such as \"backend: mysql\""}},
		"two documents":                   {ok + "---\n" + ok, nil, []string{"election.yaml:2:", "second document"}},
		"an anchor":                       {"backend: &b memory\nid: *b\n", nil, []string{"election.yaml:1:", "anchor", "election.yaml:2:", "alias"}},
		"a tag":                           {ok + "id: !!str x\n", nil, []string{"election.yaml:2:", "tag"}},
		"a merge":                         {ok + "<<: {ttl: 3s}\n", nil, []string{"election.yaml:2:", "unknown key"}},
		"a key that is a list":            {ok + "[a, b]: c\n", nil, []string{"election.yaml:2:", "a key must be a word"}},
		"not UTF-8":                       {ok + "id: \xff\n", nil, []string{"election.yaml:", "UTF-8"}},
	} {
		_, err := parse(c.text, c.environ...)
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v; want an error of class ErrInvalid", what, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the message lacks %q:\n%v", what, want, err)
			}
		}
		if strings.Contains(err.Error(), ": yaml: ") || strings.Contains(err.Error(), "invalid request") {
			t.Errorf("%s: the message shows another package's prefix: %v", what, err)
		}
	}
}

func TestAllMistakesAreReturnedAtOnce(t *testing.T) {
	_, err := parse("backend: nothing\nttl: 10\ncurator: 3\nmysql: {dsm: x}\nid: [a]\n", "ELECTION_MARGIN=a", "ELECTION_X=1")
	for _, key := range []string{"backend", "ttl", "mysql", "id", "ELECTION_MARGIN", "ELECTION_X"} {
		if !strings.Contains(fmt.Sprint(err), key+":") {
			t.Errorf("%s is not named in\n%v", key, err)
		}
	}
	if e, ok := errors.AsType[*config.Error](err); !ok || e.Source != "election.yaml" || e.Line == 0 || e.Key == "" {
		t.Errorf("no details in %#v", err)
	}
}

// An error about timings that contradict each other or the store names both values and
// the place of the one that is wrong; that of another option its place and what is allowed.
func TestImpossibleTimingsNameBothValues(t *testing.T) {
	for what, c := range map[string]struct {
		text    string
		environ []string
		want    string
	}{
		"too long a pause":         {"ttl: 9s\nrenew_every: 6s\n", nil, "election.yaml:2: ttl is 9s, must be more than 9.75s: renew_every + call_timeout + clock_margin = 6s + 2.25s + 1.5s"},
		"by the environment":       {"ttl: 20s\nrenew_every: 6s\n", []string{"ELECTION_TTL=9s"}, "ELECTION_TTL: ttl is 9s"},
		"by another option":        {"call_timeout: 6s\n", nil, "election.yaml: ttl is 10s, must be more than 11s: renew_every + call_timeout + clock_margin = 3.333s + 6s + 1.667s"},
		"too small a clock_margin": {"ttl: 20s\nclock_margin: 10ms\n", nil, "election.yaml:3: clock_margin is 10ms, must be at least 1s"},
		"less than a store":        {"ttl: 10us\n", nil, "election.yaml:2: ttl is 10µs, must be at least 1ms: a limit of backend memory"},
		"far too long":             {"ttl: 2000000h\n", nil, "election.yaml:2: ttl is 2000000h0m0s, must be at most"},
		"less than zero":           {"failover_delay: -1s\n", nil, "election.yaml:2: failover_delay is -1s, must be at least 0s"},
		"a control character":      {"id: \"a\\u0007\"\n", nil, "election.yaml:2: id contains"},
		"a long id":                {"id: " + strings.Repeat("x", 256) + "\n", nil, "election.yaml:2: id has 256 bytes"},
	} {
		conf, err := parse("backend: memory\n"+c.text, c.environ...)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		m, err := conf.Open(t.Context())
		if err == nil {
			m.Close(t.Context())
		}
		for how, err := range map[string]error{"Open": err, "Validate": conf.Validate(t.Context())} {
			if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%s: %s: %v\nwant %s", what, how, err, c.want)
			}
		}
	}
}

// A program reads the option, its value and what is allowed from fields, whether a file, the
// store's limit or the program is wrong.
func TestABadOptionIsReportedByFields(t *testing.T) {
	for _, c := range []struct {
		text, option string
		value        any
		must         string
		bound        time.Duration
	}{
		{"ttl: -1s\n", "TTL", -time.Second, "at least", 1},
		{"incumbent_grace: -1s\n", "IncumbentGrace", -time.Second, "at least", 0},
		{"id: \"a\\u0007\"\n", "ID", "a\a", "", 0},
		{"ttl: 10us\n", "TTL", 10 * time.Microsecond, "at least", time.Millisecond},
		{"ttl: 9s\nrenew_every: 6s\n", "TTL", 9 * time.Second, "more than", 9750 * time.Millisecond},
	} {
		conf, err := parse("backend: memory\n" + c.text)
		if err == nil {
			err = conf.Validate(t.Context())
		}
		e, ok := errors.AsType[*election.OptionError](err)
		if !ok || !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v has no fields", c.text, err)
		} else if e.Option != c.option || e.Value != c.value || e.Must != c.must || e.Bound != c.bound {
			t.Errorf("%s: the fields are %#v", c.text, e)
		}
	}
}

// An error of the store's package is shown with the section's line.
func TestAStoresErrorNamesItsSection(t *testing.T) {
	for what, c := range map[string]struct{ text, want string }{
		"no section":  {"backend: mysql\n", "config: election.yaml: mysql: "},
		"bad layout":  {"backend: mysqltable\nmysqltable:\n  dsn: u@tcp(h)/x\n  layout: node\n", `config: election.yaml:3: mysqltable: layout is "node"`},
		"bad section": {"backend: mysql\nmysql:\n  dsn: u@tcp(h)/x\n  prefix: 1a\n", "config: election.yaml:3: mysql: prefix is \"1a\""},
	} {
		conf, err := parse(c.text)
		testbed.NoError(t, err)
		if err := conf.Validate(t.Context()); !errors.Is(err, backend.ErrInvalid) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v\nwant %s", what, err, c.want)
		}
	}
}

func TestAMissingFileIsErrNotExist(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), config.Options{})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("%v", err)
	}
}

// Kubernetes sets such variables in each pod for each service of its namespace. This
// module's tests and the command elect have variables of their own.
func TestForeignVariablesAreIgnored(t *testing.T) {
	_, err := parse("backend: memory\n",
		"ELECTION_SERVICE_HOST=10.0.0.1", "ELECTION_SERVICE_PORT=80", "ELECTION_SERVICE_PORT_HTTP=80", "ELECTION_PORT=tcp://10.0.0.1:80",
		"ELECTION_PORT_80_TCP=tcp://10.0.0.1:80", "ELECTION_PORT_80_TCP_PROTO=tcp", "ELECTION_MYSQL_PORT_3306_TCP_ADDR=10.0.0.1",
		"ELECTION_TEST_MYSQL_DSN=x", "ELECTION_BENCH_ROLE=x",
		"ELECTION_CONFIG=x", "ELECTION_NAME=x", "ELECTION_TERM=1", // the command elect
		"ELECTIONS=1", "OTHER=1")
	if err != nil {
		t.Error(err)
	}
}

// Kubernetes sets _PORT variables for services, but never to a number. A variable with a number is a user's mistake.
func TestAPortNumberIsNotIgnored(t *testing.T) {
	_, err := parse("backend: memory\n", "ELECTION_MYSQL_PORT=3307", "ELECTION_CONSUL_PORT=tcp://10.0.0.1:8500", "ELECTION_CONSUL_SERVICE_PORT=8500", "ELECTION_CONSUL_SERVICE_PORT_DNS=53", "ELECTION_CONSUL_PORT_53_UDP_PORT=53")
	if err == nil || !strings.Contains(err.Error(), "ELECTION_MYSQL_PORT: there is no such key") || strings.Contains(err.Error(), "CONSUL") {
		t.Error(err)
	}
}

// A program with one backend names the missing import, and accepts a file with sections of stores that it does not import.
func TestAProgramMayImportOneBackend(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "one")
	if out, err := exec.Command("go", "build", "-o", binary, "./testdata/one").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for what, c := range map[string]struct{ text, want string }{
		"another backend": {"backend: etcd\n", `backend: "etcd" is not part of this program, which has: memory; to add it, import _ "github.com/go-election/go-election/backend/etcd"`},
		"others' keys":    {"backend: memory\netcd: {anything: goes}\n", "backend: memory"},
	} {
		cmd := exec.Command(binary, write(t, "election.yaml", c.text))
		cmd.Env = append(os.Environ(), "ELECTION_CONSUL_ANYTHING=goes")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%swant %s", what, err, out, c.want)
		}
	}
}
