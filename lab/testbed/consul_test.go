package testbed

import (
	"fmt"
	"net/http"
	"testing"
)

func TestConsulAnswersAndComesBack(t *testing.T) {
	a := StartConsul(t, ConsulOptions{ACL: true, TLS: true})
	a.Kill(t)
	a.Start(t)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: a.TLSConfig(), DisableKeepAlives: true}}
	answer, err := client.Get(a.URL() + "/v1/kv/x")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("reading without a token: %s, want 403", answer.Status)
	}
}

// When the leader of three servers is cut off from the others, it stops leading and
// another server takes over.
func TestConsulReplacesALeaderThatIsCutOff(t *testing.T) {
	net := NewNetwork(t, 3)
	agents := StartConsulCluster(t, net, 3)
	leader := func(except int) int {
		found := -1
		Eventually(t, patience, "one leader", func() error {
			found = -1
			for i, a := range agents {
				if i != except && a.Leads(t) {
					if found >= 0 {
						return fmt.Errorf("servers %d and %d lead", found, i)
					}
					found = i
				}
			}
			if found < 0 {
				return fmt.Errorf("no server leads")
			}
			return nil
		})
		return found
	}
	first := leader(-1)
	net.Host(first).Cut(t, true)
	leader(first)
	net.Host(first).Cut(t, false)
	leader(-1)
}
