package zookeeper

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestServerProblemsAreWarnings(t *testing.T) {
	well := server{address: "a:1", version: "3.8.0", mode: "follower", longest: sessionLength}
	readOnly, fails := well, well
	readOnly.mode, readOnly.err, fails.err = "read-only", errors.New("it accepts no session"), errors.New("\x1b[2J")
	for what, x := range map[string]struct {
		said []server
		want string // of a warning; "": none
	}{
		"all is well":       {[]server{well, well, well}, ""},
		"only one is named": {[]server{well}, "servers: only one is configured"},
		"read-only":         {[]server{well, readOnly}, "server: a:1 is in read-only mode"},
		"an escape":         {[]server{well, fails}, "server: a:1 does not serve: \ufffd[2J"},
	} {
		text := ""
		for _, d := range diagnose(x.said, time.Second) {
			text += d.String() + "\n"
		}
		if x.want == "" && strings.Contains(text, "WARNING") || !strings.Contains(text, "WARNING "+x.want) && x.want != "" {
			t.Errorf("%s: expected the warning %q:\n%s", what, x.want, text)
		}
	}
}
