package config_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/go-election/go-election/config"
)

// A file with a secret that every user may read draws a warning, which names it and does not show it.
func TestReadableSecretsDrawAWarning(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the mode of a file says nothing about its readers")
	}
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		return path
	}
	const secret = "hunter2canary"
	public, private := put("public", secret, 0o644), put("private", secret, 0o640)
	for what, c := range map[string]struct {
		text    string
		mode    os.FileMode
		environ []string
		want    []string // each part of its warning
	}{
		"no secret":             {"memory: {}\n", 0o644, nil, nil},
		"a password":            {"etcd: {endpoints: [\"h:1\"], username: a, password: " + secret + "}\n", 0o644, nil, []string{"election.yaml:2: etcd.password", "0644"}},
		"not for all":           {"etcd: {endpoints: [\"h:1\"], username: a, password: " + secret + "}\n", 0o640, nil, nil},
		"a DSN with a password": {"mysql: {dsn: \"app:" + secret + "@tcp(h:1)/a\"}\n", 0o604, nil, []string{"mysql.dsn", "0604"}},
		"a DSN without":         {"mysql: {dsn: \"app@tcp(h:1)/a\"}\n", 0o644, nil, nil},
		"a file":                {"mysql: {dsn_file: " + public + "}\n", 0o644, nil, []string{"mysql.dsn_file", public}},
		"a private file":        {"mysql: {dsn_file: " + private + "}\n", 0o644, nil, nil},
		"by a variable":         {"", 0o644, []string{"ELECTION_MYSQL_DSN_FILE=" + public}, []string{"ELECTION_MYSQL_DSN_FILE", public}},
		"in a variable":         {"", 0o644, []string{"ELECTION_ETCD_PASSWORD=" + secret}, nil},
		"a token's file":        {"", 0o644, []string{"ELECTION_CONSUL_TOKEN_FILE=" + public}, []string{"ELECTION_CONSUL_TOKEN_FILE", public}},
		"a private key":         {"etcd: {cert_file: " + private + ", key_file: " + public + "}\n", 0o644, nil, []string{"etcd.key_file", public}},
		"not there":             {"mysql: {dsn_file: " + filepath.Join(dir, "none") + "}\n", 0o644, nil, nil},
	} {
		c1, err := config.Load(put("election.yaml", "backend: memory\n"+c.text, c.mode), config.Options{Environ: append([]string{}, c.environ...)})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := strings.Join(c1.Warnings(), "\n")
		if c.want == nil && got != "" || strings.Contains(got, secret) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q", what, got)
		}
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q does not contain %q", what, got, part)
			}
		}
	}
}

// A misspelt variable is an error, though an empty one that is spelt well counts as not set.
func TestAMisspeltVariableIsAnErrorIfEmpty(t *testing.T) {
	if _, err := parse("backend: memory\n", "ELECTION_MYSQL_DNS="); err == nil || !strings.Contains(err.Error(), "did you mean ELECTION_MYSQL_DSN?") {
		t.Errorf("ELECTION_MYSQL_DNS= is accepted: %v", err)
	}
	if _, err := parse("backend: memory\n", "ELECTION_MYSQL_DSN="); err != nil {
		t.Errorf("ELECTION_MYSQL_DSN= is refused: %v", err)
	}
}
