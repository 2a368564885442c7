package curator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-election/go-election/lab/testbed"
)

// inspectUntil waits until Inspect reports all of these texts, because on a busy machine a
// server may not answer in time. It returns the report.
func inspectUntil(t *testing.T, o Options, ttl time.Duration, wants ...string) (text string) {
	t.Helper()
	testbed.Eventually(t, patience, "a complete report of Inspect", func() error {
		var err error
		if text, err = inspectText(t, o, ttl); err != nil {
			return err
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%q is missing:\n%s", want, text)
			}
		}
		return nil
	})
	return text
}

func inspectText(t *testing.T, o Options, ttl time.Duration) (text string, err error) {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list, err := b.Inspect(ctx, ttl, ttl/3)
	return diagnosticText(list), err
}

func diagnosticText(list []backend.Diagnostic) (text string) {
	for _, f := range list {
		text += f.String() + "\n"
	}
	return text
}

// What a client can find out about one server, its sessions, its rights, and a list of
// unrelated servers.
func TestInspectDescribesServersAndSessions(t *testing.T) {
	t.Parallel()
	reserve(t, 2)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{Config: []string{"minSessionTimeout=500", "maxSessionTimeout=2000"}})
	o := Options{Servers: []string{server.Addr()}, Root: "/inspect", Tick: tick, MaxSession: 20 * time.Second, User: "app", Password: canary}
	inspectUntil(t, o, 10*time.Second, "WARNING servers: one standalone server, without replication", server.Addr()+": ZooKeeper 3.", "is on its own",
		"WARNING session: a TTL of 10s, renewed every 3.333s, needs a session of 16.667s, and "+server.Addr()+" grants 2s at most: every bid is refused. Shorten the TTL to 1.2s, or raise the servers' maxSessionTimeout to 16667",
		"WARNING tick: "+server.Addr()+" grants no session of less than 500ms", "rights: /inspect does not exist yet")
	inspectUntil(t, o, time.Second, "WARNING session: "+server.Addr()+" grants sessions of 2s at most, and max_session is")
	o.MaxSession = 2 * time.Second
	inspectUntil(t, o, time.Second, "\nsession: the servers grant from 500ms to 2s")

	a := newClient(t, "a", o)
	testbed.Eventually(t, patience, "a member is announced", func() error {
		return a.Announce(t.Context(), backend.Member{Candidate: a.me, TTL: time.Second})
	})
	text := inspectUntil(t, o, time.Second, "\nrights: at /inspect: digest:app:cdrwa\n")
	if strings.Contains(text, canary) {
		t.Errorf("a secret is shown:\n%s", text)
	}
	o.User, o.Password = "", ""
	inspectUntil(t, o, time.Second, "WARNING rights: those at /inspect cannot be read by everybody")

	other := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	o.Servers = append(o.Servers, other.Addr(), "127.0.0.1:1")
	inspectUntil(t, o, time.Second, "WARNING servers: only 2 of 3 configured servers serve", "WARNING server: 127.0.0.1:1 does not serve",
		"WARNING servers: "+other.Addr()+" does not know a session that "+server.Addr()+" has created")
}

// The servers of an ensemble know each other's sessions. A server without a majority is in
// read-only mode, if configured, or closes connections.
func TestInspectFindsAServerThatIsCutOff(t *testing.T) {
	t.Parallel()
	reserve(t, 3)
	network := testbed.NewNetwork(t, 3)
	servers := testbed.StartZooKeeperEnsemble(t, network, 3)
	o := Options{Root: "/inspect", Tick: tick, MaxSession: 20 * time.Second}
	for _, s := range servers {
		o.Servers = append(o.Servers, s.Addr())
	}
	testbed.Eventually(t, patience, "all is well", func() error {
		if text, err := inspectText(t, o, 10*time.Second); err != nil || strings.Contains(text, "WARNING") || !strings.Contains(text, "leads the ensemble") || strings.Count(text, ", follows\n") != 2 {
			return errors.Join(err, errors.New(text))
		}
		return nil
	})
	network.Host(0).Cut(t, true)
	testbed.Eventually(t, patience, "one is cut off", func() error {
		if text, err := inspectText(t, o, 10*time.Second); err != nil || !strings.Contains(text, "only 2 of 3 configured servers serve") || !strings.Contains(text, servers[0].Addr()+" does not serve") {
			return errors.Join(err, errors.New(text))
		}
		return nil
	})
}

func TestSessionsThatDoNotFitAreWarnings(t *testing.T) {
	o := Options{Tick: 2 * time.Second, MaxSession: 40 * time.Second}
	well := ensemble.Status{Server: "a:1", Shortest: 4 * time.Second, Longest: 40 * time.Second}
	for what, x := range map[string]struct {
		other ensemble.Status
		want  string // of a warning; "": none
	}{
		"all is well":    {well, ""},
		"other sessions": {ensemble.Status{Server: "b:1", Shortest: 4 * time.Second, Longest: 20 * time.Second}, "session: b:1 grants sessions of 20s at most, and max_session is 40s"},
		"other ticks":    {ensemble.Status{Server: "b:1", Shortest: 6 * time.Second, Longest: 40 * time.Second}, "tick: b:1 grants no session of less than 6s"},
	} {
		text := diagnosticText(diagnostics(o, []ensemble.Status{well, x.other}, 10*time.Second, 3*time.Second))
		if x.want == "" && strings.Contains(text, "WARNING") || !strings.Contains(text, "WARNING "+x.want) && x.want != "" {
			t.Errorf("%s: expected the warning %q:\n%s", what, x.want, text)
		}
	}
}
