package elect

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// serving starts "elect serve" on a free port and returns its URL.
func serving(t *testing.T, env []string, args ...string) (m *member, url string) {
	t.Helper()
	m = start(t, env, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	return m, m.serves()
}

// serves waits until m prints its URL, and returns it.
func (m *member) serves() (url string) {
	m.t.Helper()
	said := regexp.MustCompile(`elect: serves (http://[\d.:]+)/\n`)
	testbed.Eventually(m.t, patience, fmt.Sprintf("%q serves", m.Args), func() error {
		found := said.FindStringSubmatch(m.output.String())
		if found == nil {
			return fmt.Errorf("it prints:\n%s", m.output.String())
		}
		url = found[1]
		return nil
	})
	return url
}

// ask makes a request with pairs of header names and values. Host is among them.
func ask(t *testing.T, method, url, body string, headers ...string) (code int, text string) {
	t.Helper()
	code, text, err := try(t, method, url, body, headers...)
	testbed.NoError(t, err)
	return code, text
}

func try(t *testing.T, method, url, body string, headers ...string) (code int, text string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testbed.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), err
}

func answers(t *testing.T, url string, code int, want string) {
	t.Helper()
	testbed.Eventually(t, patience, fmt.Sprintf("%s says %d and %q", url, code, want), func() error {
		if c, text, err := try(t, "GET", url, ""); err != nil || c != code || !strings.Contains(text, want) {
			return fmt.Errorf("it says %d: %s, %v", c, text, err)
		}
		return nil
	})
}

func TestServeShowsAndChangesNothing(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	start(t, env, "run", "billing/nightly", "--id", "host-1", "--", "sleep", "300").says("elect: leads")
	m, url := serving(t, env)
	answers(t, url+"/elections", 200, `"host-1"`)
	answers(t, url+"/elections", 200, `"observer":true`)
	answers(t, url+"/leader/billing%2Fnightly", 404, "only observes")
	answers(t, url+"/readyz", 200, "ok")
	answers(t, url+"/healthz", 200, "ok")
	answers(t, url+"/metrics", 200, `election_joined{state="following"} 1`)
	answers(t, url+"/", 200, "<!doctype html>")
	if code, text := ask(t, "POST", url+"/actions", `{"action":"depose","election":"billing/nightly"}`, "Content-Type", "application/json"); code != 403 {
		t.Errorf("an action: %d %s, want 403", code, text)
	}
	if code, text := ask(t, "GET", url+"/elections", "", "Host", "evil.example"); code != 421 {
		t.Errorf("a request with a foreign host name: %d %s, want 421", code, text)
	}

	stream, err := http.Get(url + "/events")
	testbed.NoError(t, err)
	defer stream.Body.Close()
	testbed.NoError(t, m.Process.Signal(syscall.SIGTERM))
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("a stream does not end in order: %v", err)
	}
	if code := m.code(); code != 0 {
		t.Errorf("after SIGTERM: code %d, want 0:\n%s", code, m.output.String())
	}
}

func TestServeRunsOnWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	m, url := serving(t, environ("ELECTION_BACKEND=mysql", "ELECTION_TTL=2s", "ELECTION_MYSQL_DSN=app:secret-word@tcp(127.0.0.1:1)/app"))
	answers(t, url+"/readyz", 503, "does not answer")
	answers(t, url+"/healthz", 200, "ok")
	m.says("the list of elections")
	testbed.NoError(t, m.Process.Signal(syscall.SIGTERM))
	if code := m.code(); code != 0 || strings.Contains(m.output.String(), "secret-word") {
		t.Errorf("after SIGTERM: code %d, want 0 and no secret:\n%s", code, m.output.String())
	}
}

func TestRunServesItsOwnStateOverHTTP(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	run := func(id string) (*member, string) {
		m := start(t, env, "run", "billing", "--id", id, "--http", "127.0.0.1:0", "--", "sleep", "300")
		return m, m.serves()
	}
	one, first := run("one")
	answers(t, first+"/leader/billing", 200, `"one"`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(first, "http://"))
	testbed.NoError(t, err)
	fmt.Fprint(conn, "OPTIONS /leader/billing HTTP/1.0\r\n\r\n") // as HAProxy's option httpchk does
	if check, err := io.ReadAll(conn); err != nil || !strings.Contains(string(check), " 200 OK") {
		t.Errorf("a check without a host name: %s, %v", check, err)
	}
	_, second := run("two")
	answers(t, second+"/leader/billing", 503, `"one"`)
	answers(t, first+"/metrics", 200, `election_leading{election="billing"} 1`)
	if code, text := ask(t, "POST", first+"/actions", `{"action":"resign","election":"billing"}`, "Content-Type", "application/json"); code != 403 {
		t.Errorf("an action: %d %s, want 403", code, text)
	}
	testbed.NoError(t, one.Process.Signal(syscall.SIGTERM))
	answers(t, second+"/leader/billing", 200, `"two"`)
	if code := one.code(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("code %d, want that of the command", code)
	}
}
