// Package electionshard spreads many elections evenly over the processes that take part:
// partitions of a queue, tenants, ranges of keys.
//
//	shards := electionshard.Names("shard", 64) // shard/00 … shard/63, or any list
//	g, err := electionshard.Lead(m, "shard", shards, consume, electionshard.Options{})
//
// Each process calls consume for the shards that it leads, with the term that fences what it
// writes. Each shard is an election of package election, and its promises are unchanged: never
// two leaders, and terms grow. This package only decides who bids and who steps down in order.
//
// # What each process decides
//
// The members are the processes that campaign for one more election, the group's name, in their
// announcements to the store, and whoever leads a shard. There is no coordinator and no other
// message. From the members and the leaders each process computes everybody's share: N shards
// over M members by weight, rounded so that the sum is N, and up for those who lead more already.
//
//   - Below its share it bids, for as many vacant shards as it lacks. Each process prefers other
//     shards, by a hash, so few bids collide.
//   - Above its share it gives up at most Options.Moves at a time, and no more than the others
//     lack: Leading is false, the function returns, the lease is released, another one bids.
//   - At its share it does nothing: a candidate that is paused.
//
// # No shard stays without a bid
//
// Members look different to each, so all may believe that another one is to bid. A shard that
// stays vacant for RenewEvery is bid for by whoever has not reached its share rounded up, and
// one that stays vacant for Options.Patience by every process below its Limit, whatever its share.
// So a wrong view costs Patience, never a shard. While nobody leads any shard, as after a restart of
// the store, that says nothing about the members, and Patience begins anew, eight times at most.
//
// Who has dropped out is noticed sooner: a member whose last leadership has ended and that has not
// announced itself since is no member.
//
// # Few moves
//
// A vacant shard is taken at once. A shard that is led moves only for a member that has been there
// for Options.Settle. So when a member comes, as many shards move as are its share; when it goes,
// only its own. A process that restarts in a rolling deployment gets what the next one to restart
// releases, and processes that crash again and again get nothing from the others. If nobody takes
// for Patience what a process gives up, or it takes what others should, it gives up nothing for
// eight times Settle, and for twice as long each time: a view that stays wrong, or a member that
// announces itself and cannot lead, does not make shards go to and fro.
//
// # Partitions
//
// A process that the store does not answer stops leading by its own clock, and bids for nothing. The others
// see its leases expire and take them. When it is back it is a new member. A process that reads an old state
// bids for what is taken, which the store refuses, or gives up a few shards too many, which others take.
//
// # A semaphore
//
// With Options.Limit 1 it is a semaphore: N elections let N processes of the fleet work at a time.
// A function of a process never runs for more than Limit shards at once.
//
// The page docs/shards.md shows how shares move, and the costs.
package electionshard
