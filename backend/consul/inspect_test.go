package consul

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/lab/testbed"
)

// TestInspectSaysHowTheServersAre calls Inspect with a member's rights, and with those that show
// more.
func TestInspectSaysHowTheServersAre(t *testing.T) {
	t.Parallel()
	agent := testbed.StartConsul(t, testbed.ConsulOptions{ACL: true})
	root, err := api.NewClient(&api.Config{Address: agent.URL(), Token: agent.AdminToken()})
	if err != nil {
		t.Fatal(err)
	}
	member := token(t, root, `key_prefix "election/" { policy = "write" }`).SecretID
	for _, x := range []struct {
		token string
		want  []string
	}{
		{member, []string{"servers: one, ", `health: not shown to this token`, `agent: version and role are not shown`}},
		{agent.AdminToken(), []string{"servers: one, ", "health: the servers report healthy: true", "agent: Consul 1.", "a server: while it is down"}},
	} {
		b, err := Open(Options{Address: agent.URL(), Token: x.token})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		// The servers report their health every few seconds, and at first not at all.
		testbed.Eventually(t, time.Minute, "Inspect says what this token may know", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			list, err := b.Inspect(ctx, 10*time.Second, 3*time.Second)
			if err != nil {
				return err
			}
			text := ""
			for _, f := range list {
				text += f.What + ": " + f.Text + "\n"
			}
			for _, want := range x.want {
				if !strings.Contains(text, want) {
					return fmt.Errorf("%q is missing:\n%s", want, text)
				}
			}
			return nil
		})
	}
}

// Limits that are lower than Consul's own are such that some thousands of leases cannot be renewed.
func TestInspectNamesLimitsThatAreTooLow(t *testing.T) {
	t.Parallel()
	for want, limits := range map[string]map[string]any{
		"":                               nil,
		"kv_max_value_size":              {"kv_max_value_size": 100_000},
		"txn_max_req_len":                {"txn_max_req_len": 400_000, "kv_max_value_size": 400_000},
		"http_max_conns_per_client is 5": {"http_max_conns_per_client": 5},
	} {
		agent := testbed.StartConsul(t, testbed.ConsulOptions{Limits: limits})
		b, err := Open(Options{Address: agent.URL()})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		list, err := b.Inspect(t.Context(), 10*time.Second, 3*time.Second)
		text := ""
		for _, d := range list {
			text += d.String() + "\n"
		}
		if err != nil || !strings.Contains(text, want) || (strings.Contains(text, "WARNING messages") || strings.Contains(text, "WARNING connections")) != (want != "") {
			t.Errorf("with %v: %q is missing, or too much: %v\n%s", limits, want, err, text)
		}
	}
}
