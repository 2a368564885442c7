package config_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/config"
)

// FuzzFileAndEnvironment reads a file and an environment, whose variables are separated by
// newlines. No error may show the passwords in it.
func FuzzFileAndEnvironment(f *testing.F) {
	for _, text := range []string{
		"", "---\n~\n", "backend: memory\n", "backend: memory\nttl: 10s\nid: a\n", "backend: memory\nttl: 9223372036s\nrenew_every: 0.1ns\n",
		"backend: mysql\nmysql: {dsn: \"u:p@tcp(h)/d\", poll: true}\n", "backend: &b memory\nid: *b\n", "a: &a [*a]\n", "? [a]\n: b\n",
		"<<: {ttl: 3s}\n", "id: !!binary gIGC\n", "id: |\n  text\n\tmore\n", "ttl: 1e400\n", "observer: 0x1\nbackend: [memory]\n",
		"backend: memory\n---\nbackend: file\n", "\ufeffbackend: memory\n", "id: \"\\x00\\u202e\"\n", "a: &a {<<: *a}\n",
		"%YAML 1.2\n---\n? a\n: b\n", "{a: [}", strings.Repeat("a: {", 500), "mysql: {dsn: }\nmysql:\n  - {? : }\n",
		strings.Repeat("[", 100), strings.Repeat("a:\n ", 50),
		"curator: {servers: [a, b], paths: {x: /a, x: /b}, acl: [\"world:anyone:r\"]}\nbackend: curator\n",
		"zookeeper: {servers: h, root: /a//b, user: \"a:b\", password: x, insecure_auth: yes}\nbackend: zookeeper\n",
		"etcd: {endpoints: \"http://a\"}\nconsul: {checks: []}\nmanual: {leaders: {a: b}}\nfile: {dir: /x, max_ttl: 1h}\n",
	} {
		f.Add([]byte(text), "")
		f.Add([]byte(text), "ELECTION_BACKEND=memory\nELECTION_TTL=10s\nELECTION_ID=\n")
	}
	for _, environ := range []string{"ELECTION_", "ELECTION_TTL", "ELECTION_TTL==", "ELECTION_CURATOR_PATHS=a=b,c", "ELECTION_ZOOKEEPER_SERVERS=a,,b\nELECTION_ZOOKEEPER_ACL=:", "ELECTION_ETCD_ENDPOINTS=,,", "ELECTION_MYSQL_DSN_FILE=x\nELECTION_MYSQL_DSN=y",
		"ELECTION_MANUAL_LEADERS==", "ELECTION_OBSERVER=maybe", "ELECTION_TTL=\xff", "ELECTION_MYSQL_PORT_3306_TCP=tcp://1"} {
		f.Add([]byte("backend: memory\n"), environ)
	}
	const secret = "open sesame 4711"
	f.Fuzz(func(t *testing.T, text []byte, environ string) {
		variables := append(strings.Split(environ, "\n"), "ELECTION_ETCD_PASSWORD="+secret, "ELECTION_ZOOKEEPER_PASSWORD="+secret, "ELECTION_CONSUL_TOKEN="+secret)
		c, err := config.Parse("election.yaml", text, config.Options{Environ: variables})
		if err != nil {
			if !errors.Is(err, backend.ErrInvalid) {
				t.Errorf("the error is not of class ErrInvalid: %v", err)
			}
			checkShown(t, err.Error(), secret)
			return
		}
		checkShown(t, c.Backend, secret)
		g := backend.Guarantees{Name: "any", MinTTL: 1}
		if whole, err := c.Election.Complete(g); err == nil && (whole.TTL <= 0 || whole.RenewEvery+whole.CallTimeout+whole.ClockMargin >= whole.TTL) {
			t.Errorf("timings that contradict each other were accepted: %+v", whole)
		}
	})
}

// checkShown checks a text that users see.
func checkShown(t *testing.T, text, secret string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b\x7f\u202e") {
		t.Errorf("the text is not printable: %q", text)
	}
	if strings.Contains(text, secret) {
		t.Errorf("the text shows a secret: %q", text)
	}
}
