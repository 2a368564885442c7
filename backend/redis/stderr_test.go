package redis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

const (
	stderrChild   = "GO_ELECTION_TEST_STDERR"
	somebodyLeads = "somebody leads"
	nobodyLeads   = "nobody leads"
)

// What happens to servers is told to the logger of the program, and nothing is printed beside it. Stderr is that of a
// process, so the candidates run in one of their own.
func TestNothingIsPrintedToStderr(t *testing.T) {
	if text := os.Getenv(stderrChild); text != "" {
		leadUntilStdinEnds(t, text)
		return
	}
	t.Parallel()
	t.Run("one server", nothingIsPrintedOfAServer)
	t.Run("Sentinels", nothingIsPrintedOfSentinels)
}

func nothingIsPrintedOfAServer(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	password := func(is string) { server.AddUser(t, "app", is, "~*", "&*", "+@all") }
	password("first")
	o := Options{Addresses: []string{server.Addr()}, MaxTTL: 2 * time.Second, Username: "app", Password: "first"}
	members := startMembers(t, o)
	server.Do(t, "CLIENT", "KILL", "USER", "app")
	testbed.Eventually(t, patience, "the follower listens again", func() error {
		if clients := server.Do(t, "CLIENT", "LIST", "TYPE", "pubsub").(string); !strings.Contains(clients, "user=app") {
			return errors.New("it does not")
		}
		return nil
	})

	for what, fault := range map[string]struct{ begin, end func() }{
		"it is stopped": {func() { server.Stop(t) }, func() { server.Continue(t) }},
		"it is killed":  {func() { server.Kill(t) }, func() { server.Start(t); password("first") }},
		"the password is another one": {
			func() { password("second"); server.Do(t, "CLIENT", "KILL", "USER", "app") },
			func() { password("first") },
		},
	} {
		fault.begin()
		members.await(t, what, nobodyLeads)
		fault.end()
		members.await(t, "the end of: "+what, somebodyLeads)
	}
	members.end(t)
}

func nothingIsPrintedOfSentinels(t *testing.T) {
	t.Parallel()
	master := testbed.StartRedis(t, testbed.Options{})
	testbed.StartRedisReplica(t, master)
	o := Options{Master: "mymaster", MaxTTL: 2 * time.Second}
	sentinels := startSentinels(t, master)
	for _, s := range sentinels {
		o.Addresses = append(o.Addresses, s.Options().Addr)
	}
	members := startMembers(t, o)
	sentinels[0].Do(t.Context(), "SHUTDOWN")
	sentinels[1].Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub")
	master.Kill(t)
	members.await(t, "the master is killed", nobodyLeads)
	members.await(t, "a replica is promoted", somebodyLeads)
	members.end(t)
}

// members are two candidates in another process.
type members struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
	output string // a file with stdout, where the logger writes
}

func startMembers(t *testing.T, o Options) *members {
	t.Helper()
	text, err := json.Marshal(o)
	testbed.NoError(t, err)
	m := &members{cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingIsPrintedToStderr$")}
	m.output = filepath.Join(t.TempDir(), "output")
	output, err := os.Create(m.output)
	testbed.NoError(t, err)
	defer output.Close()
	m.cmd.Env = append(os.Environ(), stderrChild+"="+string(text))
	m.cmd.Stdout, m.cmd.Stderr = output, &m.stderr
	m.stdin, err = m.cmd.StdinPipe()
	testbed.NoError(t, err)
	testbed.NoError(t, m.cmd.Start())
	m.await(t, "they start", somebodyLeads)
	return m
}

// await waits until the last word of the members is what they are to say.
func (m *members) await(t *testing.T, after, want string) {
	t.Helper()
	testbed.Eventually(t, patience, fmt.Sprintf("%s, after: %s", want, after), func() error {
		output, err := os.ReadFile(m.output)
		last := func(said string) int { return bytes.LastIndex(output, []byte(said)) }
		if max(last(somebodyLeads), last(nobodyLeads)) != last(want) || last(want) < 0 {
			return fmt.Errorf("%w, output:\n%s", err, output)
		}
		return err
	})
}

func (m *members) end(t *testing.T) {
	t.Helper()
	m.stdin.Close()
	if err := m.cmd.Wait(); err != nil || m.stderr.Len() > 0 {
		t.Errorf("%v, and stderr has what the logger did not write:\n%s", err, &m.stderr)
	}
}

// leadUntilStdinEnds runs the candidates, and says on stdout whether one of them leads, whenever that changes.
func leadUntilStdinEnds(t *testing.T, text string) {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, nil)))
	var o Options
	testbed.NoError(t, json.Unmarshal([]byte(text), &o))
	a, b := join(t, "a", time.Second, o), join(t, "b", time.Second, o)
	testbed.NoError(t, a.Lead(nil))
	testbed.NoError(t, b.Lead(nil))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, os.Stdin)
	}()

	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for led := false; ; {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		if leads := a.Leading() || b.Leading(); leads != led {
			led = leads
			fmt.Println(map[bool]string{true: somebodyLeads, false: nobodyLeads}[led])
		}
	}
}
