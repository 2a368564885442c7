package consul

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

func TestASessionHasOnlyTheConfiguredChecks(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{SessionTTLMin: time.Second})
	l := newLab(t, agent)
	fatal(t, l.root.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", Check: &api.AgentServiceCheck{CheckID: "web", TTL: "10m", Status: "passing"}}))
	fatal(t, l.root.Agent().CheckRegister(&api.AgentCheckRegistration{ID: "disk", Name: "disk", AgentServiceCheck: api.AgentServiceCheck{TTL: "10m", Status: "passing"}}))
	for want, change := range map[string]func(*Options){
		"[] [{web }]":     func(o *Options) { o.ServiceChecks = []string{"web"} },
		"[disk] []":       func(o *Options) { o.Checks = []string{"disk"} },
		"[disk] [{web }]": func(o *Options) { o.Checks, o.ServiceChecks = []string{"disk"}, []string{"web"} },
	} {
		n := l.node(t, "n", change)
		var id string
		testbed.Eventually(t, time.Minute, "the servers to know the checks", func() (err error) {
			ctx, cancel := n.ctx()
			defer cancel()
			id, err = n.driver.checkedFor(ctx, n.ttl, true)
			return err
		})
		s, _, err := l.root.Session().Info(id, nil)
		fatal(t, err)
		if got := fmt.Sprint(s.NodeChecks, s.ServiceChecks); got != want {
			t.Errorf("the session has the checks %s, want %s", got, want)
		}
	}
	n := l.node(t, "n", func(o *Options) { o.Checks = []string{"dsik"} })
	ctx, cancel := n.ctx()
	defer cancel()
	if _, err := n.Acquire(ctx, []backend.Bid{{Election: "x", Candidate: n.me, TTL: n.ttl, Expected: n.observe("x")}}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("a check that does not exist: %v; want ErrDenied", err)
	}
}

// A health check of the session fails. The leader cannot renew, steps down when its lease expires, and
// cannot be elected. Others watch from the end of the session.
func TestAFailingCheckEndsTheLeadership(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{})
	l := newLab(t, agent)
	fatal(t, l.root.Agent().CheckRegister(&api.AgentCheckRegistration{ID: "disk", Name: "disk", AgentServiceCheck: api.AgentServiceCheck{TTL: "10m", Status: "passing"}}))
	a := l.node(t, "a", func(o *Options) { o.Checks = []string{"disk"} })
	b := l.node(t, "b")
	var held backend.Lease
	testbed.Eventually(t, time.Minute, "the servers to know the check", func() error {
		ctx, cancel := a.ctx()
		defer cancel()
		answers, err := a.Acquire(ctx, []backend.Bid{{Election: "x", Candidate: a.me, TTL: labTTL, Renew: labTTL / 4, Expected: a.observe("x")}})
		if err == nil {
			held = answers[0].Lease
		}
		return err
	})
	a.want("a renewal with a check that passes", a.renew(held)[0], backend.Granted)
	fatal(t, l.root.Agent().UpdateTTL("disk", "full", "critical"))
	testbed.Eventually(t, time.Minute, "renewals to fail because of the check", func() error {
		answers, err := a.Renew(t.Context(), []backend.Held{held.Held()})
		if err == nil || !strings.Contains(err.Error(), "critical") || backend.Class(err) != backend.ErrUnavailable {
			return fmt.Errorf("%v, %v", answers, err)
		}
		return nil
	})
	b.want("a bid of another member, after watching", b.bid(b.watched("x")), backend.Granted)
	a.release(backend.Failed, held)
	if answers, err := a.Acquire(t.Context(), []backend.Bid{{Election: "y", Candidate: a.me, TTL: labTTL, Expected: a.observe("y")}}); err == nil || !strings.Contains(err.Error(), "critical") {
		t.Errorf("a bid with a failing check: %v, %v", answers, err)
	}
	fatal(t, l.root.Agent().UpdateTTL("disk", "", "passing"))
	testbed.Eventually(t, time.Minute, "a grant once the check passes", func() error {
		answers, err := a.Acquire(t.Context(), []backend.Bid{{Election: "y", Candidate: a.me, TTL: labTTL, Expected: a.observe("y")}})
		if err != nil || answers[0].Outcome != backend.Granted {
			return fmt.Errorf("%v, %v", answers, err)
		}
		return nil
	})
}
