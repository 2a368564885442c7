package ensemble

import (
	"errors"
	"strings"
	"testing"
)

func TestServerProblemsAreWarnings(t *testing.T) {
	well := Status{Server: "a:1", Version: "3.8.0", Mode: "follower"}
	readOnly, fails := well, well
	readOnly.Mode, readOnly.Err, fails.Err = "read-only", errors.New("it accepts no session"), errors.New("\x1b[2J")
	for what, x := range map[string]struct {
		said []Status
		want string // of a warning; "": none
	}{
		"all is well":       {[]Status{well, well, well}, ""},
		"only one is named": {[]Status{well}, "servers: only one is configured"},
		"read-only":         {[]Status{well, readOnly}, "server: a:1 is in read-only mode"},
		"an escape":         {[]Status{well, fails}, "server: a:1 does not serve: \ufffd[2J"},
	} {
		text := ""
		for _, d := range diagnose(x.said) {
			text += d.String() + "\n"
		}
		if x.want == "" && strings.Contains(text, "WARNING") || !strings.Contains(text, "WARNING "+x.want) && x.want != "" {
			t.Errorf("%s: expected the warning %q:\n%s", what, x.want, text)
		}
	}
}
