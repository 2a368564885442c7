package consul

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// The servers' messages contain names of elections, and a token may be a word of our own messages.
func TestNamesInMessagesDoNotChangeTheClass(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{ACL: true})
	l := newLab(t, agent)
	reader := token(t, l.root, fmt.Sprintf("key_prefix %q { policy = \"read\" }\nsession_prefix \"\" { policy = \"write\" }\nkey_prefix %q { policy = \"write\" }", l.prefix, l.prefix+"/session/")).SecretID
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

// The servers and the kernel report two configuration mistakes without naming the option.
func TestDenialsNameTheOptionToCorrect(t *testing.T) {
	agent := testbed.SharedConsul(t)
	l := newLab(t, agent)
	n := l.node(t, "n")
	for text, want := range map[error]string{
		api.StatusError{Code: 500, Body: "Missing node registration"}: "Datacenter must be the agent's own",
		&os.PathError{Op: "dial", Path: "/x", Err: syscall.EACCES}:    "the agent's socket",
	} {
		if err := n.driver.Fail(text); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want ErrDenied with %q, got %v", text, want, err)
		}
	}
	if _, _, err := l.root.Session().Create(&api.SessionEntry{Node: "no-such-node"}, nil); err == nil || !strings.Contains(err.Error(), "Missing node registration") {
		t.Errorf("a session on an unregistered node: want the server's error to have the text that wrap looks for, got %v", err)
	}
}
