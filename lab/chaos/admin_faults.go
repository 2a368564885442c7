//go:build linux

package chaos

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/lab/testbed"
)

// An administrator can edit a store manually: delete a lock, or end the session to which
// it belongs. The leader finds out at its next renewal. Until then no other process may
// lead.

// edit is a manual edit of one election.
func edit(f func(r *run, election string)) fault {
	return func(r *run) {
		election := elections[r.IntN(len(elections))]
		r.inject(election, byEnd, func() { f(r, election) })
		r.wait(ttl/2, ttl) // meanwhile the leader finds out
	}
}

// closing closes the members' connections again and again.
func closing(addr string, do func(r *run)) fault {
	return while(addr, byCall, func(r *run) {
		r.again(ttl, 20*time.Millisecond, 200*time.Millisecond, func() { do(r) })
	})
}

// A holder is what a record says of the process that leads.
type holder struct{ Nonce string }

// itemFaults delete the items of the lease protocol on a store of keys. read reads the record of an election, if it is
// there.
func itemFaults(read func(r *run, election string) holder, remove func(r *run, kind, name string)) map[string]fault {
	return map[string]fault{
		"lock deleted": edit(func(r *run, election string) { remove(r, "record", election) }),
		"session ended": edit(func(r *run, election string) {
			if h := read(r, election); h.Nonce != "" {
				remove(r, "session", h.Nonce)
			}
		}),
	}
}

func consulAdmin(a *testbed.Daemon, prefix string) map[string]fault {
	kv := "/v1/kv/" + prefix
	read := func(r *run, election string) (h holder) {
		a.Try(r.Context(), http.MethodGet, kv+"/record/"+election+"?raw", nil, &h)
		return h
	}
	return itemFaults(read, func(r *run, kind, name string) {
		a.Request(r, http.MethodDelete, kv+"/"+kind+"/"+name, nil, nil)
	})
}

func etcdAdmin(n *testbed.Daemon, prefix string) map[string]fault {
	request := func(r *run, what, key string, into any) {
		key = base64.StdEncoding.EncodeToString([]byte(prefix + key))
		n.Request(r, http.MethodPost, "/v3/kv/"+what, map[string]any{"key": key}, into)
	}
	read := func(r *run, election string) (h holder) {
		var found struct{ Kvs []struct{ Value []byte } }
		request(r, "range", "record/"+election, &found)
		for _, kv := range found.Kvs {
			json.Unmarshal(kv.Value, &h)
		}
		return h
	}
	return itemFaults(read, func(r *run, kind, name string) { request(r, "deleterange", kind+"/"+name, nil) })
}

func postgresAdmin(server *testbed.PostgresServer, d *testbed.PostgresDatabase) map[string]fault {
	change := func(statement string) fault {
		return edit(func(r *run, election string) { d.Exec(r, statement+" WHERE kind = 'record' AND name = '"+election+"'") })
	}
	return map[string]fault{
		"row deleted": change("DELETE FROM election_item"),
		"row edited":  change("UPDATE election_item SET value = value"), // only the transaction that wrote the row changes
		"row locked": while(server.Addr(), byCall, func(r *run) {
			tx, err := d.Admin().Begin(r.Context())
			testbed.NoError(r, err)
			defer tx.Rollback(context.WithoutCancel(r.Context()))
			_, err = tx.Exec(r.Context(), "SELECT FROM election_item FOR UPDATE")
			testbed.NoError(r, err)
			r.wait(ttl/2, 2*ttl)
		}),
		"connections closed": closing(server.Addr(), func(r *run) { d.Disconnect(r) }),
	}
}

func redisAdmin(server *testbed.RedisServer, prefix string) map[string]fault {
	key := func(name string) string { return "{" + prefix + "}:" + name }
	return map[string]fault{
		"row deleted": edit(func(r *run, election string) { server.Do(r, "HDEL", key("record"), election) }),
		"row edited": edit(func(r *run, election string) {
			if text, ok := server.Do(r, "HGET", key("record"), election).(string); ok {
				server.Do(r, "HSET", key("record"), election, text+" ")
			}
		}),
		"all versions deleted": edit(func(r *run, _ string) { server.Do(r, "DEL", key("version")) }),
		"epoch deleted":        edit(func(r *run, _ string) { server.Do(r, "DEL", key("origin")) }),
		"connections closed":   closing(server.Addr(), func(r *run) { server.Do(r, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }),
	}
}

func curatorAdmin(c *zk.Conn, root string) map[string]fault {
	return map[string]fault{
		"lock deleted": edit(func(r *run, election string) {
			queues, _, err := c.Children(root + "/latch")
			testbed.NoError(r, err)
			for _, q := range queues {
				queue := root + "/latch/" + q
				nodes, _, err := c.Children(queue)
				if err != nil || len(nodes) == 0 || !strings.HasPrefix(q, election[:7]) {
					continue
				}
				number := func(name string) string { return name[strings.LastIndex(name, "-"):] }
				first := slices.MinFunc(nodes, func(a, b string) int { return strings.Compare(number(a), number(b)) })
				if err := c.Delete(queue+"/"+first, -1); err != nil && err != zk.ErrNoNode {
					r.Fatal(err)
				}
			}
		}),
	}
}

func zooKeeperAdmin(c *zk.Conn, root string) map[string]fault {
	read := func(_ *run, election string) (h holder) {
		text, _, _ := c.Get(root + "/record/" + nodeOf(election))
		json.Unmarshal(text, &h)
		return h
	}
	return itemFaults(read, func(_ *run, kind, name string) { c.Delete(root+"/"+kind+"/"+nodeOf(name), -1) })
}

// nodeOf is the name of the node of an election.
func nodeOf(election string) string { return strings.ReplaceAll(election, "/", "%2F") }
