package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// Preflight implements [backend.Preflighter]. It writes an item that nobody reads, and deletes it.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	err := b.Enter(bids[0].Candidate.Nonce)
	if err == nil {
		err = b.driver.tryOut(ctx)
	}
	if err != nil {
		err = fmt.Errorf("redis: preflight: %w", err)
	}
	return slices.Repeat([]error{err}, len(bids))
}

func (d *driver) tryOut(ctx context.Context) error {
	v, err := d.List(ctx, lease.Sessions, "", 1)
	it := lease.Item{Key: lease.Key{Kind: lease.Sessions, Name: "preflight-" + newNonce()}}
	for _, value := range []lease.Value{&lease.Session{}, nil} {
		if err != nil {
			return err
		}
		var w lease.Written
		w, err = d.Write(ctx, v.Epoch, 0, []lease.Change{{Put: []lease.Put{{Over: it, Value: value}}}}, nil)
		if err == nil && w.Results[0].Outcome == backend.Granted {
			it = w.Results[0].Items[0]
		}
	}
	return err
}

// Inspect implements [backend.Inspector]. Settings that INFO does not tell need the right CONFIG GET.
func (b *Backend) Inspect(ctx context.Context, ttl, _ time.Duration) (list []backend.Diagnostic, err error) {
	members, err := b.Members(ctx, "", 1000)
	if err != nil {
		return nil, fmt.Errorf("redis: inspect: %w", err)
	}
	d := b.driver
	c := d.newClient(false)
	defer d.conns.Close(c)
	info, err := c.Info(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("redis: inspect: %w", d.fail(err))
	}
	facts := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		facts[name] = value
	}
	setting := func(name string) string {
		return cmp.Or(c.ConfigGet(ctx, name).Val()[name], "unknown without the right +config|get")
	}
	number := func(name string) int { // 0: unknown
		n, _ := strconv.Atoi(cmp.Or(facts[name], setting(name)))
		return n
	}
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	version := cmp.Or(facts["valkey_version"], facts["redis_version"])
	add(false, "server", "%s %s", cmp.Or(facts["server_name"], "redis"), version)
	if p := facts["maxmemory_policy"]; strings.HasPrefix(p, "allkeys-") { // others delete what expires
		add(true, "eviction", "maxmemory-policy is %s: the server may delete leases that are in use, and"+
			" elections then stop for %v. Set it to noeviction or a volatile one", p, d.maxTTL)
	}
	const again = "After a restart or failover every leader steps down, and each lease is observed for %v"
	switch {
	case d.replicas > 0:
		add(false, "durability", "a change is on %d replicas (wait_replicas). "+again, d.replicas, d.maxTTL)
	case facts["aof_enabled"] == "1":
		add(false, "durability", "a change is in the append-only file, flushed as appendfsync says (%s)."+
			" A restart may lose the rest. "+again, setting("appendfsync"), d.maxTTL)
	default:
		add(false, "durability", "a change is in memory only: a restart loses it, with the history and"+
			" requests of operators. appendonly yes keeps them. "+again, d.maxTTL)
	}
	if n := number("connected_slaves"); n > 0 {
		least, lag := number("min-replicas-to-write"), number("min-replicas-max-lag")
		safe := d.replicas >= n || least >= n && lag > 0 && ttl+time.Duration(lag+2)*time.Second <= d.maxTTL
		what := "an old master without its replicas confirms nothing"
		if !safe {
			what = "an old master that was cut off grants leases while a replica is promoted: two processes" +
				" lead. Set wait_replicas to that number, or fence it off (docs/redis.md, \"Failover\")"
		}
		add(!safe, "replication", "%d replicas, wait_replicas %d, min-replicas-to-write %s: %s",
			n, d.replicas, setting("min-replicas-to-write"), what)
	}
	if backlog := number("repl-backlog-ttl"); backlog != 0 && float64(backlog) < d.maxTTL.Seconds() {
		add(true, "backlog", "repl-backlog-ttl is %d s; want 0, or max_ttl (%v) or more", backlog, d.maxTTL)
	}
	if most, used := number("maxclients"), number("connected_clients"); most > 0 {
		list = append(list, client.Connections(2, mostConns+2, len(members), most-used, most))
	}
	list = append(list, limits(number, setting("client-output-buffer-limit"))...)
	add(ttl > d.maxTTL, "greatest TTL", "%v (max_ttl); nobody leads for that long after a restart or"+
		" failover of the server, nor before the very first election", d.maxTTL)
	if ttl > d.maxTTL {
		add(true, "TTL", "every bid is refused: the TTL is %v, and max_ttl %v", ttl, d.maxTTL)
		list[len(list)-1].Fatal = true
	}
	return list, nil
}

// limits says which limits of the server are too low for a process that leads thousands of elections.
func limits(number func(name string) int, buffers string) (list []backend.Diagnostic) {
	check := func(name string, n, least int) {
		if 0 < n && n < least {
			list = append(list, clean.Diagnosticf(true, "messages",
				"%s is %d: a process that leads thousands of elections needs %d", name, n, least))
		}
	}
	check("proto-max-bulk-len", number("proto-max-bulk-len"), lease.MaxValue)
	check("client-query-buffer-limit", number("client-query-buffer-limit"), 2*lease.MaxValue)
	hard := 0 // of answers, the longest of which have some 8 MB
	fmt.Sscanf(buffers, "normal %d", &hard)
	check("client-output-buffer-limit normal", hard, 8<<20)
	return list
}
