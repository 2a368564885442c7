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
