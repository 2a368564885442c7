package elect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/lab/testbed"
)

func TestStatusListAndHistoryShowTheLeader(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	if out, code := call(t, env, "list"); code != 0 || !strings.Contains(out, "no elections yet") {
		t.Errorf("an empty store: code %d: %s", code, out)
	}
	if out, code := call(t, env, "status", "job"); code != exitVacant || !strings.Contains(out, "nobody has led yet") {
		t.Errorf("a new election: code %d: %s", code, out)
	}
	for range 2 {
		call(t, env, "run", "job", "--id", "first", "--", "true")
	}
	m := start(t, env, "run", "job", "--id", "second", "--", "sleep", "300")
	m.says("elect: leads")
	out, code := call(t, env, "status", "job", "--json")
	var s electionhttp.Record
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 || s.Leader == nil || s.Leader.ID != "second" || len(s.History) != 2 || len(s.Candidates) != 1 || s.End != backend.Released {
		t.Errorf("code %d, %v: %s", code, err, out)
	}
	if len(s.Term) < 16 || strings.Count(out, `"term":"`) != 3 {
		t.Errorf("a term is a string in JSON, that of the current leadership and those of past ones: %s", out)
	}
	if list, _ := call(t, env, "list", "--json"); strings.Count(list, `"term":"`) != 3 || strings.Contains(list, `"term":1`) {
		t.Errorf("list: %s", list)
	}
	start(t, env, "watch", "job").says(fmt.Sprintf(`"term":%q`, s.Term))
	if out, code := call(t, env, "history", "job"); code != 0 || strings.Count(out, "first") != 2 || !strings.Contains(out, "leads") {
		t.Errorf("history: code %d: %s", code, out)
	}
	if out, code := call(t, env, "list"); code != 0 || !strings.Contains(out, "second") {
		t.Errorf("list: code %d: %s", code, out)
	}
	for _, args := range [][]string{{"status"}, {"status", "job"}, {"status", "job", "--json"}} {
		if out, _ := call(t, env, args...); !strings.Contains(out, "file /") || !strings.Contains(out, "/leases") {
			t.Errorf("%q does not say which store this is: %s", args, out)
		}
	}
}

// The lease of a stopped leader has expired, so the leader cannot lead, though the record still names
// it. (That of a dead one is released at once.)
func TestASilentLeaderCountsAsNoLeader(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"mysql", "etcd", "consul", "zookeeper", "curator"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			env := on(t, store, "ELECTION_TTL=10s")
			m := start(t, env, "run", "job", "--id", "one", "--", "sleep", "300")
			m.says("elect: leads")
			status := func(want int, silent bool) {
				t.Helper()
				testbed.Eventually(t, patience, fmt.Sprintf("status is %d, silent %v", want, silent), func() error {
					out, code := call(t, env, "status", "job", "--json")
					if _, all := call(t, env, "list", "--json"); code != want || all != 0 || strings.Contains(out, `"silent":true`) != silent {
						return fmt.Errorf("code %d, list has %d:\n%s", code, all, out)
					}
					var s electionhttp.Record
					if err := json.Unmarshal([]byte(out), &s); err != nil || !silent && (s.Elected == nil || time.Since(*s.Elected) < 12*time.Second) {
						return fmt.Errorf("it has not led for longer than a TTL yet (%v):\n%s", err, out)
					}
					return nil
				})
			}
			status(0, false)
			m.Process.Signal(syscall.SIGSTOP)
			status(exitVacant, true)
			if out, code := call(t, env, "status", "job"); code != exitVacant || !strings.Contains(out, "one (silent)") {
				t.Errorf("code %d:\n%s", code, out)
			}
		})
	}
}

// Another process may become the leader while status still looks whether the leader is silent. Then status shows the
// new leader, and never the former one as leading.
func TestTheLeaderBeforeATakeoverIsNotShownAsLeading(t *testing.T) {
	t.Parallel()
	env := on(t, "etcd", "ELECTION_TTL=10s", "ELECTION_FAILOVER_DELAY=3s") // status observes an expired lease for longer than that
	first := start(t, env, "run", "job", "--id", "one", "--", "sleep", "300")
	first.says("elect: leads")
	start(t, env, "run", "job", "--id", "two", "--", "sleep", "300")
	first.Process.Signal(syscall.SIGSTOP)
	testbed.Eventually(t, patience, "status shows the next leader", func() error {
		out, code := call(t, env, "status", "job", "--json")
		var s electionhttp.Record
		if err := json.Unmarshal([]byte(out), &s); err != nil || s.Leader == nil {
			return fmt.Errorf("code %d: %s", code, out)
		}
		if s.Leader.ID == "one" && !s.Silent && s.Renewed > s.TTL {
			t.Errorf("a leader that has not renewed for longer than its TTL is shown as leading, with code %d:\n%s", code, out)
		}
		if s.Leader.ID != "two" {
			return fmt.Errorf("%s leads", s.Leader.ID)
		}
		return nil
	})
}

// Elect checks the timings before it connects: nothing listens at these addresses.
func TestAllCommandsRefuseInvalidTimings(t *testing.T) {
	t.Parallel()
	curator := []string{"ELECTION_BACKEND=curator", "ELECTION_CURATOR_SERVERS=127.0.0.1:1"}
	for want, env := range map[string][]string{
		"ttl is -1s, must be at least":                             onFiles(t, "ELECTION_TTL=-1s"),
		"is 2h0m0s, must be at most 1m0s: ":                        onFiles(t, "ELECTION_TTL=2h"),
		"is 500ms, must be at least 1s: a limit of backend consul": environ("ELECTION_BACKEND=consul", "ELECTION_CONSUL_ADDRESS=http://127.0.0.1:1", "ELECTION_TTL=500ms"),
		"is 13s, must be at most 12s: a limit of backend curator":  environ(append(curator, "ELECTION_TTL=13s")...),
	} {
		for _, args := range [][]string{{"run", "job", "--", "true"}, {"status", "job"}, {"list"}, {"history", "job"}, {"watch", "job", "--for", "1s"}, {"serve", "job", "--for", "1s", "--listen", "127.0.0.1:0"}, {"depose", "job"}, {"doctor"}} {
			if out, code := call(t, env, args...); code == 0 || !strings.Contains(out, want) {
				t.Errorf("elect %q: code %d; want %q in\n%s", args, code, want, out)
			}
		}
	}
}

func TestTextOfAStoreCannotControlATerminal(t *testing.T) {
	t.Parallel()
	r := clean.Record(backend.Record{
		Lease:   backend.Lease{Election: "job", Term: 1, Holder: backend.Candidate{ID: "a\x1b[2Jb", Nonce: "n", Address: "x\ty"}, MovedTo: "m\x07"},
		History: []backend.Leadership{{ID: "old\x1b]0;evil\x07"}},
	})
	s := electionhttp.NewRecord("", r, false)
	for _, text := range []string{sighting{Record: r}.leaderText(), s.Leader.ID, s.Leader.Address, s.History[0].ID, s.MovedTo} {
		if strings.ContainsAny(text, "\x1b\x07\t") {
			t.Errorf("%q reaches the terminal", text)
		}
	}
	var diag bytes.Buffer
	(&app{in: strings.NewReader(""), out: &diag, diag: &diag}).main(t.Context(), []string{"\x1b[2Jstatus"})
	if strings.Contains(diag.String(), "\x1b") {
		t.Errorf("an escape reaches the terminal: %q", diag.String())
	}
}
