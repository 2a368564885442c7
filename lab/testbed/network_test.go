package testbed

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// A host that is cut off receives nothing from the others, but its clients still reach it. Packets are dropped, not refused.
func TestClientsReachAHostThatIsCutOff(t *testing.T) {
	hosts := newHosts(t, 2)
	a, b := hosts[0], hosts[1]
	reach := func(from *Host, ip, seconds string) string {
		// No program listens on the port: a refusal shows that the packet arrived.
		text := "timeout " + seconds + " bash -c 'echo >/dev/tcp/" + ip + "/9'; echo $?"
		command := []string{"bash", "-c", text}
		if from != nil {
			command = from.command(command)
		}
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		switch {
		case strings.Contains(string(out), "refused"):
			return "arrives"
		case strings.HasSuffix(strings.TrimSpace(string(out)), "124"), strings.Contains(string(out), "No route"): // the latter after some seconds
			return "vanishes"
		}
		return string(out)
	}
	arrives := func(when, who string, from *Host, ip string) {
		t.Helper()
		Eventually(t, patience, when+", packets of "+who+" arrive", func() error {
			if got := reach(from, ip, "20"); got != "arrives" {
				return errors.New(got)
			}
			return nil
		})
	}
	vanishes := func(when, who string, from *Host, ip string) {
		t.Helper()
		if got := reach(from, ip, "1"); got != "vanishes" {
			t.Errorf("%s, a packet of %s %s, want vanishes", when, who, got)
		}
	}
	arrives("at first", "a host", a, b.PeerIP())
	a.Cut(t, true)
	vanishes("cut off", "it", a, b.PeerIP())
	vanishes("cut off", "another host", b, a.PeerIP())
	arrives("cut off", "a client", nil, a.IP())
	a.Cut(t, false)
	arrives("joined again", "it", a, b.PeerIP())
}
