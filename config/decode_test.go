package config_test

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/config"
)

// A probe is a section with every type of value that a store may have.
type probe struct {
	Text    string            `yaml:"text"`
	Switch  bool              `yaml:"switch"`
	Number  int               `yaml:"number"`
	Small   int8              `yaml:"small"`
	Pause   time.Duration     `yaml:"pause"`
	List    []string          `yaml:"list"`
	Map     map[string]string `yaml:"map"`
	Own     string            `yaml:"own"`
	OwnFile string            `yaml:"own_file"`
	Hidden  string            `yaml:"-"`
}

// probed is the section with which the backend "probe" was last opened. Tests that use it do not run at the same time.
var probed probe

func init() {
	backend.Register("probe", probe{}, func(p probe) (backend.Backend, error) {
		probed = p
		return memory.New().Backend(), nil
	})
}

func openProbe(t *testing.T, text string, environ ...string) (probe, error) {
	t.Helper()
	c, err := parse("backend: probe\n"+text, environ...)
	if err != nil {
		return probe{}, err
	}
	b, err := c.OpenBackend()
	if err != nil {
		return probe{}, err
	}
	return probed, b.Close()
}

func TestEveryTypeIsReadFromFileAndEnvironment(t *testing.T) {
	want := probe{
		Text: "007", Switch: true, Number: -3, Small: 127, Pause: 90 * time.Second,
		List: []string{"a:1", "b:2"}, Map: map[string]string{"x": "1", "y": "2"},
	}
	inFile := `
probe:
  text: 007
  switch: true
  number: -3
  small: "127"
  pause: 1m30s
  list: [a:1, b:2]
  map: {x: 1, y: 2}
`
	got, err := openProbe(t, inFile)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("from the file: %+v, %v", got, err)
	}
	got, err = openProbe(t, "probe: {list: [z]}", "ELECTION_PROBE_TEXT=007\n", "ELECTION_PROBE_SWITCH=true\r\n", "ELECTION_PROBE_NUMBER=-3",
		"ELECTION_PROBE_SMALL=127\n", "ELECTION_PROBE_PAUSE=1m30s", "ELECTION_PROBE_LIST=a:1, b:2,", "ELECTION_PROBE_MAP=x=1,y=2")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("from the environment: %+v, %v", got, err)
	}
	if got, err = openProbe(t, "probe:\n"); err != nil || !reflect.DeepEqual(got, probe{}) {
		t.Errorf("from nothing: %+v, %v", got, err)
	}
}

func TestWrongTypesAreDescribed(t *testing.T) {
	for text, want := range map[string]string{
		"number: 1.5": `probe.number: "1.5" is not a whole number`,
		"small: 256":  `probe.small: "256" is not a whole number from -128 to 127`,
		"number: 99999999999999999999999999999999999999999999": "whole number",
		"list: a,b":         "probe.list: must be a list, such as [a, b]; it is a single value",
		"list: [a, [b]]":    "probe.list[1]: must be a string; it is a list",
		"map: [a]":          "probe.map: must be a map",
		"map: {a: {b: c}}":  `probe.map["a"]: must be a string`,
		"map: {a: b, a: c}": "a second time",
		"map: {a: ~}":       `probe.map["a"]: must be a string; it is empty`,
		"list: [a, null]":   "probe.list[1]: must be a string; it is empty",
		"Hidden: x":         "unknown key",
		"switch: 1":         `probe.switch: "1" must be true or false`,
	} {
		if _, err := openProbe(t, "probe: {"+text+"}"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "election.yaml:2") {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}

func TestAStringCanBeReadFromItsOwnFile(t *testing.T) {
	secret := write(t, "secret", "from a file\n")
	for what, c := range map[string]struct {
		text    string
		environ []string
		want    string
	}{
		"in the file":                       {"text_file: " + secret, nil, "from a file"},
		"in the environment":                {"", []string{"ELECTION_PROBE_TEXT_FILE=" + secret}, "from a file"},
		"the environment's over the file's": {"text: other", []string{"ELECTION_PROBE_TEXT_FILE=" + secret}, "from a file"},
		"a text over a file's file":         {"text_file: " + secret, []string{"ELECTION_PROBE_TEXT=direct"}, "direct"},
		"a key of that name":                {"own_file: " + secret, nil, ""},
	} {
		got, err := openProbe(t, "probe: {"+c.text+"}", c.environ...)
		if err != nil || got.Text != c.want {
			t.Errorf("%s: %q, %v", what, got.Text, err)
		}
	}
	empty := write(t, "empty", "\n")
	for what, c := range map[string]struct {
		text    string
		environ []string
		want    string
	}{
		"both in the file":        {"text: a, text_file: b", nil, "probe.text_file is set too, on line 2"},
		"both in the environment": {"", []string{"ELECTION_PROBE_TEXT=a", "ELECTION_PROBE_TEXT_FILE=b"}, "ELECTION_PROBE_TEXT is set too"},
		"not there":               {"text_file: /nowhere/secret", nil, "election.yaml:2: probe.text_file: the file cannot be read: open /nowhere/secret"},
		"not there, environment":  {"", []string{"ELECTION_PROBE_TEXT_FILE=/nowhere"}, "ELECTION_PROBE_TEXT_FILE: probe.text_file: the file cannot be read: open /nowhere"},
		"empty":                   {"text_file: " + empty, nil, "probe.text_file: the file is empty"},
		"not for numbers":         {"number_file: x", nil, "unknown key"},
		"not for files":           {"own_file_file: x", nil, "unknown key"},
	} {
		if _, err := openProbe(t, "probe: {"+c.text+"}", c.environ...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", what, err, c.want)
		}
	}
	if _, err := parse("backend: memory\nprobe: {text_file: /nowhere}\n"); err != nil {
		t.Errorf("the secret of a store that is not selected is read: %v", err)
	}
}

// A check of a section calls the store's opener only for its keys. It opens no store that is not selected.
func TestOnlyTheSelectedStoreIsOpened(t *testing.T) {
	probed = probe{}
	c, err := parse("backend: memory\nprobe: {text: x}\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(t.Context()); err != nil || probed.Text != "" {
		t.Errorf("the other store was opened with %+v, %v", probed, err)
	}
}

// Each backend returns the error of its decode function: config relies on this when it checks the sections of other stores.
func TestBackendsStopAtAWrongSection(t *testing.T) {
	wrong := errors.New("wrong")
	for _, name := range backend.Names() {
		var calls int
		b, err := backend.Open(name, func(any) error { calls++; return wrong })
		if b != nil || !errors.Is(err, wrong) || calls != 1 {
			t.Errorf("%s: %v, %v after %d calls of decode", name, b, err, calls)
		}
	}
}

func TestNoTwoKeysShareAVariable(t *testing.T) {
	seen := map[string]string{}
	for _, k := range config.Keys() {
		for _, v := range []string{k.Variable, k.FileVariable} {
			if old := seen[v]; old != "" && v != "" {
				t.Errorf("%s is the variable of %s and of %s", v, old, k.Name)
			}
			seen[v] = k.Name
		}
	}
	if seen["ELECTION_MYSQL_DSN"] != "mysql.dsn" || seen["ELECTION_TTL"] != "ttl" {
		t.Errorf("keys are missing: %v", seen)
	}
}

var secretive = regexp.MustCompile(`dsn|passw|token|secret|auth|credential|digest`)

// No error shows a secret, whatever is wrong with the secret or next to it. Printing a Config does not show it either.
func TestNoErrorShowsASecret(t *testing.T) {
	const canary = "hunter2canary"
	check := func(what string, x any) {
		t.Helper()
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			if s := fmt.Sprintf(verb, x); strings.Contains(s, "anary") || strings.Contains(s, fmt.Sprintf("%x", canary)) {
				t.Errorf("%s: %s shows the secret: %s", what, verb, s)
			}
		}
	}
	for _, k := range config.Keys() {
		if k.FileName == "" {
			continue // not a string of a store's section
		}
		section, key, _ := strings.Cut(k.Name, ".")
		indent := func(value string) string { return fmt.Sprintf("%s:\n  %s: %s\n", section, key, value) }
		secretFile := write(t, "secret", canary)
		for what, c := range map[string]struct {
			text    string
			environ []string
		}{
			"in place":                 {indent(canary), nil},
			"as a DSN":                 {indent("u:" + canary + "@h"), nil},
			"list":                     {indent("[" + canary + "]"), nil},
			"section":                  {indent("{" + canary + ": x}"), nil},
			"section with sign":        {indent("{\"" + canary + "@h\": x}"), nil},
			"alias":                    {indent("*" + canary), nil},
			"anchor":                   {indent("&" + canary + " x"), nil},
			"tag":                      {indent("!" + canary + " x"), nil},
			"directive":                {indent("%" + canary), nil},
			"open quote":               {indent("\"" + canary), nil},
			"bad escape":               {indent("\"\\q" + canary + "\""), nil},
			"reserved":                 {indent("@" + canary), nil},
			"colons":                   {indent("u: " + canary + ": x"), nil},
			"beside a tab":             {indent(canary) + "\tx: y\n", nil},
			"twice":                    {indent(canary) + indent(canary), nil},
			"as a key":                 {"\"" + canary + ":x@h\": y\n", nil},
			"in the environment":       {"", []string{k.Variable + "=" + canary}},
			"in the environment twice": {"", []string{k.Variable + "=" + canary, k.FileVariable + "=" + secretFile}},
			"in a file":                {"", []string{k.FileVariable + "=" + secretFile}},
		} {
			// With another mistake in the file there always is an error.
			for _, beside := range []string{"", "ttl: 3\n", section + "x: y\n"} {
				conf, err := parse("backend: "+section+"\n"+beside+c.text, c.environ...)
				check(k.Name+" "+what, err)
				if err != nil {
					continue
				}
				check(k.Name+" "+what, conf)
				check(k.Name+" "+what, *conf)
				check(k.Name+" "+what, struct{ inner config.Config }{*conf})
				check(k.Name+" "+what, struct{ inner *config.Config }{conf})
				if secretive.MatchString(k.Name) { // the store's package may show other strings, such as a table's name
					conf.Election.TTL = time.Nanosecond
					check(k.Name+" "+what, conf.Validate(t.Context()))
				}
			}
		}
	}
}

// A user may write a secret where the path of its file, or the name of a store, belongs.
func TestASecretInPlaceOfANameIsNotShown(t *testing.T) {
	const canary = "hunter2canary"
	pem := `"-----BEGIN PRIVATE KEY-----\n` + canary + `\n-----END PRIVATE KEY-----"`
	files := "cert_file: " + pem + ", key_file: " + pem
	for text, environ := range map[string][]string{
		"backend: mysql://u:" + canary + "@h/d\n": nil,
		"": {"ELECTION_BACKEND=u:" + canary + "@tcp(h)/d"},
		"backend: migration\nmigration: {from: \"u:" + canary + "@tcp(h)/d\", to: memory, stage: both}\n": nil,
		"backend: mysql\nmysql: {dsn_file: \"u:" + canary + "@tcp(h)/d\"}\n":                              nil,
		"backend: mysql\n": {"ELECTION_MYSQL_DSN_FILE=/u:" + canary + "@tcp(h)/d"},
		"backend: etcd\netcd: {endpoints: [\"http://127.0.0.1:1\"], username: a, password_file: " + canary + "}\n": nil,
		"backend: etcd\netcd: {endpoints: [\"https://127.0.0.1:1\"], " + files + "}\n":                             nil,
		"backend: etcd\netcd: {endpoints: [\"https://127.0.0.1:1\"], ca_file: " + canary + "}\n":                   nil,
		"backend: curator\ncurator: {servers: [h], " + files + "}\n":                                               nil,
		"backend: curator\ncurator: {servers: [h], ca_file: " + canary + "}\n":                                     nil,
		"backend: zookeeper\nzookeeper: {servers: [h], user: a, tls: true, password_file: " + canary + "}\n":       nil,
		"backend: zookeeper\nzookeeper: {servers: [h], " + files + "}\n":                                           nil,
		"backend: zookeeper\nzookeeper: {servers: [h], acl: [\"digest:" + canary + "\"]}\n":                        nil,
		"backend: consul\nconsul: {address: \"https://h\", " + files + "}\n":                                       nil,
		"backend: consul\nconsul: {address: \"https://h\", ca_file: " + canary + "}\n":                             nil,
		"backend: consul\nconsul: {token_file: " + canary + "}\n":                                                  nil,
	} {
		c, err := parse(text, environ...)
		if err == nil {
			err = c.Validate(t.Context())
		}
		if !errors.Is(err, backend.ErrInvalid) || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s %v: want an error without the secret, got %v", text, environ, err)
		}
	}
	for key, text := range map[string]string{
		"mysql.dsn_file":                 "backend: mysql\nmysql: {dsn_file: /no/such/file}\n",
		"etcd.password_file":             "backend: etcd\netcd: {endpoints: [h], username: a, password_file: /no/such/file}\n",
		"etcd: ca_file":                  "backend: etcd\netcd: {endpoints: [h], ca_file: /no/such/file}\n",
		"etcd: cert_file and key_file":   "backend: etcd\netcd: {endpoints: [h], cert_file: /no/such/file, key_file: /no/key}\n",
		"zookeeper.password_file":        "backend: zookeeper\nzookeeper: {servers: [h], user: a, tls: true, password_file: /no/such/file}\n",
		"zookeeper: ca_file":             "backend: zookeeper\nzookeeper: {servers: [h], ca_file: /no/such/file}\n",
		"consul.token_file":              "backend: consul\nconsul: {token_file: /no/such/file}\n",
		"consul: ca_file":                "backend: consul\nconsul: {address: \"https://h\", ca_file: /no/such/file}\n",
		"consul: cert_file and key_file": "backend: consul\nconsul: {address: \"https://h\", cert_file: /no/such/file, key_file: /no/key}\n",
	} {
		c, err := parse(text)
		if err == nil {
			err = c.Validate(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), key+": ") || !strings.Contains(err.Error(), "open /no/such/file: no such file") {
			t.Errorf("want an error that shows the path after %s, got %v", key, err)
		}
	}
}

func TestManyMistakesGiveAShortError(t *testing.T) {
	_, err := parse("backend: memory\n" + strings.Repeat("x: 1\n", 10_000))
	if n := len(fmt.Sprint(err)); err == nil || n > 10_000 {
		t.Errorf("got an error of %d bytes: %.300v", n, err)
	}
}
