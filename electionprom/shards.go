package electionprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-election/go-election/electionshard"
)

// A ShardCollector collects the metrics of one group of package electionshard. It is safe for
// concurrent use. All its metrics have the label group, the group's name:
//
//	election_shards{group, state}             shards by the state that this process knows: leading (itself),
//	                                          following (another process), vacant, unknown
//	election_shard_members{group}             processes that take part
//	election_shard_share{group}               shards that this process should lead
//	election_shard_imbalance{group}           shards that would have to move until each process leads its share
//	election_shard_given_up_total{group}      shards that this process has given up for others
//	election_shard_beyond_share_total{group}  shards that it has taken beyond its share, since nobody else did
type ShardCollector struct {
	group *electionshard.Group
	id    string

	shards, members, share, imbalance, givenUp, beyond *prometheus.Desc
}

var _ prometheus.Collector = (*ShardCollector)(nil)

// NewShards returns a collector of g's metrics, which the program registers. It reads the group's
// Status at each scrape. Of o it uses Namespace.
func NewShards(g *electionshard.Group, o Options) *ShardCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		group := prometheus.Labels{"group": g.Status().Name}
		return prometheus.NewDesc(prometheus.BuildFQName(o.Namespace, "election", name), help, labels, group)
	}
	return &ShardCollector{
		group: g, id: g.ID(),
		shards:    desc("shards", "Shards by the state that this process knows.", "state"),
		members:   desc("shard_members", "Processes that share the shards."),
		share:     desc("shard_share", "Shards that this process should lead."),
		imbalance: desc("shard_imbalance", "Shards that would have to move until each process leads its share."),
		givenUp:   desc("shard_given_up_total", "Shards that this process has given up for others."),
		beyond:    desc("shard_beyond_share_total", "Shards that this process has taken beyond its share, because nobody else did."),
	}
}

// Describe implements [prometheus.Collector].
func (c *ShardCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.shards, c.members, c.share, c.imbalance, c.givenUp, c.beyond} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *ShardCollector) Collect(to chan<- prometheus.Metric) {
	value := func(d *prometheus.Desc, kind prometheus.ValueType, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, float64(n), labels...)
	}

	s := c.group.Status()
	leading, share := 0, 0
	for _, m := range s.Members {
		if m.ID == c.id {
			leading, share = m.Leads, m.Share
		}
	}
	value(c.shards, prometheus.GaugeValue, leading, "leading")
	value(c.shards, prometheus.GaugeValue, s.Shards-leading-s.Vacant-s.Unknown, "following")
	value(c.shards, prometheus.GaugeValue, s.Vacant, "vacant")
	value(c.shards, prometheus.GaugeValue, s.Unknown, "unknown")
	value(c.members, prometheus.GaugeValue, len(s.Members))
	value(c.share, prometheus.GaugeValue, share)
	value(c.imbalance, prometheus.GaugeValue, s.Imbalance)
	value(c.givenUp, prometheus.CounterValue, s.GivenUp)
	value(c.beyond, prometheus.CounterValue, s.Beyond)
}
