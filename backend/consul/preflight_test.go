package consul

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// Preflight reports a missing right before the first bid, for exactly the elections that it affects.
func TestRightsAreTriedBeforeTheFirstBid(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.ConsulOptions{ACL: true})
	l := newLab(t, agent)
	all := fmt.Sprintf(`key_prefix %q { policy = "write" }`, l.prefix+"/")
	but := func(key string) string {
		return all + fmt.Sprintf(`key_prefix %q { policy = "read" }`, key)
	}
	for what, c := range map[string]struct {
		rules      string
		jobs, some bool // whether it may lead them
	}{
		"all":                {all, true, true},
		"records to read":    {but(l.prefix + "/record/"), false, false},
		"one record to read": {but(l.record("some")), true, false},
		"the meta item":      {but(l.prefix + "/meta"), false, false},
		"everything to read": {fmt.Sprintf(`key_prefix %q { policy = "read" }`, l.prefix+"/"), false, false},
		"no session":         {but(l.prefix + "/session/"), false, false},
	} {
		n := l.node(t, "n", func(o *Options) { o.Token = token(t, l.root, c.rules).SecretID })
		ctx, cancel := n.ctx()
		defer cancel()
		errs := n.Preflight(ctx, []backend.Bid{{Election: "jobs", Candidate: n.me, TTL: labTTL}, {Election: "some", Candidate: n.me, TTL: labTTL}})
		for i, may := range []bool{c.jobs, c.some} {
			if may != (errs[i] == nil) || !may && !errors.Is(errs[i], backend.ErrDenied) {
				t.Errorf("%s: bid %d: %v", what, i, errs[i])
			}
		}
	}
	pairs, _, err := l.root.KV().List(l.prefix, nil)
	if fatal(t, err); len(pairs) > 0 {
		t.Errorf("after Preflight there are %d keys", len(pairs))
	}
}
