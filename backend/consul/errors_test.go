package consul

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// The servers' messages contain names of elections, and a token may be a word of our own messages.
func TestNamesInMessagesDoNotChangeTheClass(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{ACL: true})
	l := newLab(t, agent)
	reader := token(t, l.root, fmt.Sprintf("key_prefix %q { policy = \"read\" }\nkey_prefix %q { policy = \"write\" }", l.prefix, l.prefix+"/session/")).SecretID
	n := l.node(t, "n", func(o *Options) { o.Token = reader })
	for _, name := range []string{"x", "search-index", "existing"} {
		ctx, cancel := n.ctx()
		answers, err := n.Acquire(ctx, []backend.Bid{{Election: name, Candidate: n.me, TTL: n.ttl, Expected: n.observe(name)}})
		cancel()
		if err == nil {
			err = answers[0].Err
		}
		if !errors.Is(err, backend.ErrDenied) {
			t.Errorf("no right to write, election %q: %v; want ErrDenied", name, err)
		}
	}
	open := newLab(t, testbed.SharedConsul(t))
	for _, word := range []string{"consul", "election", "over"} {
		n := open.node(t, "n", func(o *Options) { o.Token = word })
		held := n.win(word)
		if err := n.Request(t.Context(), []backend.Request{{Election: held.Election, Term: 1, Kind: backend.Depose}}); !errors.Is(err, backend.ErrStale) {
			t.Errorf("a request for a former term, with the token %q: %v; want ErrStale", word, err)
		}
	}
}

// The kernel says that this process may not open the agent's socket.
func TestASocketThatMayNotBeOpenedIsDenied(t *testing.T) {
	a := open(t, Options{}).driver
	if err := a.Fail(&os.PathError{Op: "dial", Path: "/x", Err: syscall.EACCES}); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "the agent's socket") {
		t.Errorf("%v; want ErrDenied and the socket", err)
	}
}
