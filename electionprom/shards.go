package electionprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-election/go-election/electionshard"
)

// A ShardCollector collects the metrics of one group of package electionshard. It is safe for
// concurrent use. All its metrics have the label group, the group's name:
//
//	election_shards{group, state}    shards by the state that this process knows: leading (itself),
//	                                 following (another process), vacant, unknown
//	election_shard_members{group}    processes that take part
//	election_shard_share{group}      shards that this process should lead
//	election_shard_imbalance{group}  shards that would have to move until each process leads its share
type ShardCollector struct {
	metrics
	group *electionshard.Group
}

var _ prometheus.Collector = (*ShardCollector)(nil)

// NewShards returns a collector of g's metrics, which the program registers. It reads the group's
// Status at each scrape. Of o it uses Namespace.
func NewShards(g *electionshard.Group, o Options) *ShardCollector {
	c := &ShardCollector{group: g}
	c.metrics = newMetrics(o.Namespace, prometheus.Labels{"group": g.Status().Name}, [][]string{
		{"shards", "Shards by the state that this process knows.", "state"},
		{"shard_members", "Processes that share the shards."},
		{"shard_share", "Shards that this process should lead."},
		{"shard_imbalance", "Shards that would have to move until each process leads its share."},
	})
	return c
}

// Collect implements [prometheus.Collector].
func (c *ShardCollector) Collect(to chan<- prometheus.Metric) {
	s := c.group.Status()
	leading, share := 0, 0
	for _, m := range s.Members {
		if m.ID == c.group.ID() {
			leading, share = m.Leads, m.Share
		}
	}
	c.gauge(to, "shards", float64(leading), "leading")
	c.gauge(to, "shards", float64(s.Shards-leading-s.Vacant-s.Unknown), "following")
	c.gauge(to, "shards", float64(s.Vacant), "vacant")
	c.gauge(to, "shards", float64(s.Unknown), "unknown")
	c.gauge(to, "shard_members", float64(len(s.Members)))
	c.gauge(to, "shard_share", float64(share))
	c.gauge(to, "shard_imbalance", float64(s.Imbalance))
}
