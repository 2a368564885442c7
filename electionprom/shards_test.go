package electionprom_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionprom"
	"github.com/go-election/go-election/electionshard"
	"github.com/go-election/go-election/electiontest"
	"github.com/go-election/go-election/lab/testbed"
)

func TestShardMetricsShowTheSpread(t *testing.T) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		var collectors []*electionprom.ShardCollector
		for _, id := range []string{"a", "b"} {
			work := func(ctx context.Context, _ *election.Leadership) error { <-ctx.Done(); return nil }
			group, err := electionshard.Lead(g.Start(id).Manager, "shard", electionshard.Names("shard", 6), work, electionshard.Options{})
			testbed.NoError(t, err)
			collectors = append(collectors, electionprom.NewShards(group, electionprom.Options{Namespace: "app"}))
		}
		time.Sleep(15 * time.Second)
		want := `
# HELP app_election_shard_imbalance Shards that would have to move until each process leads its share.
# TYPE app_election_shard_imbalance gauge
app_election_shard_imbalance{group="shard"} 0
# HELP app_election_shard_members Processes that share the shards.
# TYPE app_election_shard_members gauge
app_election_shard_members{group="shard"} 2
# HELP app_election_shard_share Shards that this process should lead.
# TYPE app_election_shard_share gauge
app_election_shard_share{group="shard"} 3
# HELP app_election_shards Shards by the state that this process knows.
# TYPE app_election_shards gauge
app_election_shards{group="shard",state="following"} 3
app_election_shards{group="shard",state="leading"} 3
app_election_shards{group="shard",state="unknown"} 0
app_election_shards{group="shard",state="vacant"} 0
`
		for _, c := range collectors {
			expect(t, c, want)
		}
	})
}
