package conformance

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/election"
)

// A participant is a node in one election.
type participant struct {
	*election.Election
	node   *node
	belief *Entry // of the checker: the leadership that it is sampling

	mu       sync.Mutex
	received []election.Event
}

// lead campaigns with a function that waits for the end of its context.
func (p *participant) lead() {
	p.leadWith(func(ctx context.Context, _ *election.Leadership) error {
		<-ctx.Done()
		return nil
	})
}

func (p *participant) leadWith(fn election.LeadFunc) { must(p.Lead(fn), "lead %q", p.Name()) }

// end closes the node's manager, which must end in order within limit.
func (p *participant) end(limit time.Duration) { require(p.node.close(limit)) }

// events returns the events that the watcher has received so far.
func (p *participant) events() []election.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.received)
}

// candidate starts a node that campaigns in an election.
func (t *Trial) candidate(id, name string, change func(*election.Options)) *participant {
	p := t.participant(id, name, change)
	p.lead()
	return p
}

// participant starts a node that joins an election and does not campaign.
func (t *Trial) participant(id, name string, change func(*election.Options)) *participant {
	return t.node(id, change).join(name)
}

// waitForLeader waits until one of the members leads, and returns it and the others.
func (t *Trial) waitForLeader(
	limit time.Duration, members ...*participant,
) (leader *participant, others []*participant) {
	t.waitUntil(limit, "a leader", func() bool {
		leader = leaderOf(members)
		return leader != nil
	})
	others = slices.DeleteFunc(slices.Clone(members), func(p *participant) bool { return p == leader })
	return leader, others
}

// waitForOneLeader waits until exactly one of the members leads. On a busy machine a leader may just have
// lost its lease; then there is another within the bound. The checker finds two leaders.
func (t *Trial) waitForOneLeader(members ...*participant) {
	limit := t.TTL
	if !t.Virtual {
		limit = 2 * t.takeoverBound()
	}
	follows := func(p *participant) bool { return !p.Leading() }
	t.waitUntil(limit, "exactly one leader", func() bool {
		return len(slices.DeleteFunc(slices.Clone(members), follows)) == 1
	})
}

func leaderOf(members []*participant) *participant {
	for _, p := range members {
		if !p.node.dead.Load() && p.Leading() {
			return p
		}
	}
	return nil
}

// startWithLeader starts n candidates and waits until one leads and all know a leader.
func (t *Trial) startWithLeader(
	n int, name string, change func(*election.Options),
) (leader *participant, others []*participant) {
	var members []*participant
	for i := range n {
		members = append(members, t.candidate(string(rune('a'+i)), name, change))
	}
	leader, others = t.waitForLeader(2*t.takeoverBound(), members...)
	t.sleep(t.renewEvery()) // the followers read once
	t.waitUntil(t.takeoverBound(), "every member to know a leader", func() bool {
		return !slices.ContainsFunc(members, func(p *participant) bool { _, _, ok := p.Leader(); return !ok })
	})
	return leader, others
}
