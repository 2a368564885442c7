package electionshard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// Options configures a [Group]. The zero value is ready to use.
type Options struct {
	// Limit is the greatest number of shards for which this process works at a time. If all
	// processes together may not lead all shards, some stay vacant. Default: 0, no limit.
	Limit int

	// Moves is how many shards this process gives up at a time for others, and for how many it
	// bids beyond its share. A shard has been given up when somebody leads it. Default: 4.
	Moves int

	// Settle is how long a process must have taken part before others give up shards for it. In a rolling
	// deployment it should exceed the time from one restart to the next but one. Default: 3 TTL.
	Settle time.Duration

	// Patience is how long a shard must have been vacant before any process below its Limit
	// bids for it, whatever its share. It should exceed FailoverDelay and IncumbentGrace of
	// election.Options. Default: 2 TTL.
	Patience time.Duration

	// Weight, if set, returns the weight of a process: one of weight 2 leads twice as many
	// shards as one of weight 1. All processes must have the same function. It typically reads
	// Metadata, which is untrusted text; what it returns is limited to 1 to 1000. It is called
	// on one goroutine, and must not block. Default: nil, all weights are 1.
	Weight func(election.Candidate) int
}

// complete checks o and fills in the defaults.
func (o Options) complete(ttl time.Duration) (Options, error) {
	if o.Limit < 0 || o.Moves < 0 || o.Settle < 0 || o.Patience < 0 {
		return o, fmt.Errorf("electionshard: %w: an option is negative: %+v", backend.ErrInvalid, o)
	}
	o.Limit = cmp.Or(o.Limit, math.MaxInt)
	o.Moves = cmp.Or(o.Moves, 4)
	o.Settle = cmp.Or(o.Settle, 3*ttl)
	o.Patience = cmp.Or(o.Patience, 2*ttl)
	return o, nil
}

func (o Options) weight(c election.Candidate) int {
	if o.Weight == nil {
		return 1
	}
	return min(max(1, o.Weight(c)), maxWeight)
}

// A Group is this process's part in the elections of one set of shards. Its methods are safe for
// concurrent use.
type Group struct {
	manager *election.Manager
	name    string
	members *election.Election // whoever takes part campaigns for it
	shards  []*election.Election
	index   map[string]int // of a shard, by name
	work    election.LeadFunc
	options Options
	ttl     time.Duration
	began   time.Time

	ctx   context.Context // ends with Leave
	leave context.CancelFunc
	wake  chan struct{}
	left  chan struct{} // closed when the goroutine has ended

	// Only the goroutine uses these.
	planner         *planner
	announced       []announcement
	readAt, triedAt time.Time // when the members were last read, and when that was last tried

	mu      sync.Mutex
	running []bool // functions that have not returned, by shard
	status  Status
}

// Lead makes this process take part in the elections of shards, in the background, until Leave or
// until m is closed. It calls f for each shard that it leads, on a goroutine of its own, as
// [election.Election.Lead] does; lead.Election() is the name of the shard. When f returns while
// the shard is led, another process may lead it.
//
// name is the name of one election more, by which the processes of the group find each other. All processes
// must have the same name and the same shards, except during an update of the list: a shard that only some of
// them know is led by one of these. The elections belong to the group: it pauses and resumes them itself.
//
// Lead does not wait for the store. If nobody leads any shard, the first bids are made RenewEvery later, so
// that processes that start together share from the start. The error is that of [election.Manager.Join] or
// [election.Election.Lead], or of class backend.ErrInvalid for a list or an option that makes no sense.
func Lead(m *election.Manager, name string, shards []string, f election.LeadFunc, o Options) (*Group, error) {
	s := m.Status()
	o, err := o.complete(s.TTL)
	switch {
	case err != nil:
		return nil, err
	case len(shards) == 0 || f == nil:
		return nil, fmt.Errorf("electionshard: %w: no shards, or no function", backend.ErrInvalid)
	}

	g := &Group{
		manager: m, name: name, work: f, options: o, ttl: s.TTL, began: time.Now(),
		index: map[string]int{}, planner: newPlanner(s.ID, len(shards), o, s.RenewEvery),
		wake: make(chan struct{}, 1), left: make(chan struct{}),
		running: make([]bool, len(shards)), status: Status{Name: name, Shards: len(shards)},
	}
	g.ctx, g.leave = context.WithCancel(context.Background())
	if err := g.join(shards); err != nil {
		return nil, err
	}
	go g.loop()
	return g, nil
}

// join joins all elections. The group's own is the first, so that its name has room in the
// announcement of a process that leads thousands.
func (g *Group) join(shards []string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("electionshard: %w", err)
			g.leaveAll(context.Background()) // at once: none of them has campaigned
		}
	}()
	if g.members, err = g.manager.Join(g.name); err != nil {
		return err
	}
	for i, name := range shards {
		e, err := g.manager.Join(name)
		if err != nil {
			return err
		}
		e.Pause()
		g.index[name], g.shards = i, append(g.shards, e)
		if err := e.Lead(g.lead(i)); err != nil {
			return err
		}
	}
	return g.members.Lead(nil)
}

// leaveAll leaves all elections. They step down together, and the group's own is the last.
func (g *Group) leaveAll(ctx context.Context) (err error) {
	for _, e := range g.shards {
		e.Pause()
	}
	for _, e := range g.shards {
		err = errors.Join(err, e.Leave(ctx))
	}
	if g.members != nil {
		err = errors.Join(err, g.members.Leave(ctx))
	}
	return err
}

// lead returns the function of one shard. It works for Limit shards at most, even if somebody
// has resumed the elections of the whole manager meanwhile.
func (g *Group) lead(i int) election.LeadFunc {
	return func(ctx context.Context, lead *election.Leadership) error {
		if !g.begin(i) {
			return nil
		}
		defer g.wakeUp()
		defer g.end(i)
		return g.work(ctx, lead)
	}
}

func (g *Group) begin(i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := 0
	for _, r := range g.running {
		if r {
			own++
		}
	}
	g.running[i] = own < g.options.Limit
	return g.running[i]
}

func (g *Group) end(i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[i] = false
}

func (g *Group) wakeUp() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Leave gives up all shards in order, waits for their functions, and leaves the elections. It
// returns the errors of [election.Election.Leave]; if ctx ends first, leaving continues. A lead
// function must not call it.
func (g *Group) Leave(ctx context.Context) error {
	g.leave()
	<-g.left // soon: its calls of the store have ended
	return g.leaveAll(ctx)
}
