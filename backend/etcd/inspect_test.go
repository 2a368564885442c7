package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

func inspect(t *testing.T, o Options) string {
	t.Helper()
	b, err := Open(o)
	testbed.NoError(t, err)
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	list, err := b.Inspect(ctx, 10*time.Second, 3*time.Second)
	testbed.NoError(t, err)
	return describe(list)
}

func describe(list []backend.Diagnostic) (text string) {
	for _, f := range list {
		text += f.String() + "\n"
	}
	return text
}

func TestInspectNeedsOnlyMemberRights(t *testing.T) {
	t.Parallel()
	n, _ := withUsers(t, "app/", testbed.Options{Args: []string{"--bcrypt-cost=4"}})
	text := inspect(t, Options{Endpoints: []string{n.URL(), "http://127.0.0.1:1"}, Prefix: "app/", Username: "app", Password: secret})
	for _, want := range []string{"cluster: one member", "etcd 3.", "leads the cluster", "WARNING member: http://127.0.0.1:1 does not answer"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

// A cluster whose limits are lower than etcd's own is one in which some thousands of leases cannot be renewed.
func TestInspectNamesLimitsThatAreTooLow(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"":                                nil,
		"WARNING messages: --max-txn-ops": {"--max-txn-ops=100"},
		"WARNING messages: --max-concurrent-streams is 1":            {"--max-concurrent-streams=1"},
		"WARNING messages: --max-request-bytes is less than 1049600": {"--max-request-bytes=1000000"},
	} {
		n := testbed.StartEtcd(t, testbed.Options{Args: args})
		text := inspect(t, Options{Endpoints: []string{n.URL()}})
		if !strings.Contains(text, want) || strings.Contains(text, "messages") != (want != "") {
			t.Errorf("with %v: %q is missing:\n%s", args, want, text)
		}
		c := dial(t, n.URL())
		if found, err := c.Get(t.Context(), "", clientv3.WithPrefix()); err != nil || found.Count > 0 {
			t.Errorf("Inspect has written %v; %v", found, err)
		}
	}
}

func TestClusterProblemsAreWarnings(t *testing.T) {
	members := func(n int) (list []*etcdserverpb.Member) {
		for i := range n {
			list = append(list, &etcdserverpb.Member{ID: uint64(i + 1)})
		}
		return list
	}
	says := func(id uint64, change func(*clientv3.StatusResponse)) endpointStatus {
		st := &clientv3.StatusResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 7, MemberId: id}, Version: "3.6.1", Leader: 1}
		if change != nil {
			change(st)
		}
		return endpointStatus{endpoint: "e", status: st}
	}
	away := endpointStatus{endpoint: "e", err: errors.New("refused\x1b[2J")}
	for _, x := range []struct {
		what    string
		members int
		said    []endpointStatus
		want    string // the beginning of a warning; "": there is none
	}{
		{"three of three", 3, []endpointStatus{says(1, nil), says(2, nil), says(3, nil)}, ""},
		{"one of one", 1, []endpointStatus{says(1, nil)}, ""},
		{"two of three", 3, []endpointStatus{says(1, nil), says(2, nil), away}, "cluster: the endpoints reach 2 of 3 voting members; the cluster can lose 0 of these"},
		{"one of three", 3, []endpointStatus{says(1, nil), away}, "cluster: the endpoints reach 1 of 3 voting members: less"},
		{"two clusters", 1, []endpointStatus{says(1, nil), says(9, func(st *clientv3.StatusResponse) { st.Header.ClusterId = 8 })}, "cluster: the endpoints belong to 2 clusters"},
		{"no leader", 1, []endpointStatus{says(1, func(st *clientv3.StatusResponse) { st.Leader = 0 })}, "member: e: etcd 3.6.1, KNOWS NO LEADER"},
		{"a learner", 1, []endpointStatus{says(1, func(st *clientv3.StatusResponse) { st.IsLearner = true })}, "member: e: etcd 3.6.1, is a learner"},
		{"little room", 1, []endpointStatus{says(1, func(st *clientv3.StatusResponse) { st.DbSize, st.DbSizeQuota = 1900<<20, 2048<<20 })}, "member: e: the quota is 2048 MiB"},
		{"an alarm", 1, []endpointStatus{says(1, func(st *clientv3.StatusResponse) { st.Errors = []string{"NOSPACE"} })}, "member: e: NOSPACE"},
		{"an escape", 1, []endpointStatus{says(1, nil), away}, "member: e does not answer: refused\ufffd[2J"},
	} {
		text := describe(diagnostics(members(x.members), x.said))
		if x.want == "" && strings.Contains(text, "WARNING") || !strings.Contains(text, "WARNING "+x.want) && x.want != "" {
			t.Errorf("%s: expected the warning %q:\n%s", x.what, x.want, text)
		}
	}
}
