//go:build linux

package chaos

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
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

// callHTTP sends a request with a JSON body and decodes the JSON answer.
func callHTTP(r *run, method, address string, body any, into any) {
	r.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		r.Fatal(err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		r.Fatal(err)
	}
	defer a.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(a.Body, 1<<20))
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", a.Status, answer)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		r.Fatalf("%s %s: %v", method, address, err)
	}
}

// adminFault is a manual edit of one election.
func adminFault(name string, f func(r *run, election string)) fault {
	return func(r *run) {
		election := elections[r.IntN(len(elections))]
		r.inject(name, election, byEnd, func() { f(r, election) })
		r.wait(r.TTL/2, r.TTL) // meanwhile the leader finds out
	}
}

func consulAdmin(base, prefix string) map[string]fault {
	kv := base + "/v1/kv/"
	return map[string]fault{
		"lock deleted": adminFault("lock deleted", func(r *run, election string) {
			callHTTP(r, http.MethodDelete, kv+prefix+"/record/"+election, nil, nil)
		}),
		"session ended": adminFault("session ended", func(r *run, election string) {
			var found []struct {
				Key   string
				Value []byte
			}
			callHTTP(r, http.MethodGet, kv+prefix+"/?recurse", nil, &found)
			for _, f := range found {
				var record struct{ Nonce string }
				if f.Key == prefix+"/record/"+election && json.Unmarshal(f.Value, &record) == nil && record.Nonce != "" {
					callHTTP(r, http.MethodDelete, kv+prefix+"/session/"+record.Nonce, nil, nil)
				}
			}
		}),
	}
}

func etcdAdmin(base, prefix string) map[string]fault {
	key := func(key string) map[string]any {
		return map[string]any{"key": base64.StdEncoding.EncodeToString([]byte(prefix + key))}
	}
	return map[string]fault{
		"lock deleted": adminFault("lock deleted", func(r *run, election string) {
			callHTTP(r, http.MethodPost, base+"/v3/kv/deleterange", key("record/"+election), nil)
		}),
		"session ended": adminFault("session ended", func(r *run, election string) {
			var found struct{ Kvs []struct{ Value []byte } }
			callHTTP(r, http.MethodPost, base+"/v3/kv/range", key("record/"+election), &found)
			var record struct{ Nonce string }
			if len(found.Kvs) == 1 && json.Unmarshal(found.Kvs[0].Value, &record) == nil && record.Nonce != "" {
				callHTTP(r, http.MethodPost, base+"/v3/kv/deleterange", key("session/"+record.Nonce), nil)
			}
		}),
	}
}

func postgresAdmin(server *testbed.PostgresServer, d *testbed.PostgresDatabase) map[string]fault {
	record := func(election string) string { return " WHERE kind = 'record' AND name = '" + election + "'" }
	return map[string]fault{
		"row deleted": adminFault("row deleted", func(r *run, election string) { d.Exec(r, "DELETE FROM election_item"+record(election)) }),
		// Only the transaction that wrote the row changes.
		"row edited": adminFault("row edited", func(r *run, election string) { d.Exec(r, "UPDATE election_item SET value = value"+record(election)) }),
		"row locked": func(r *run) {
			r.inject("row locked", server.Addr(), byCall, func() {
				tx, err := d.Admin().Begin(r.Context())
				if err != nil {
					r.Fatal(err)
				}
				defer tx.Rollback(context.WithoutCancel(r.Context()))
				if _, err := tx.Exec(r.Context(), "SELECT FROM election_item FOR UPDATE"); err != nil {
					r.Fatal(err)
				}
				r.wait(r.TTL/2, 2*r.TTL)
			})
		},
		"connections closed": func(r *run) {
			r.inject("connections closed", server.Addr(), byCall, func() {
				for end := Now() + r.TTL; Now() < end; {
					d.Exec(r, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+d.User+"'")
					r.wait(20*time.Millisecond, 200*time.Millisecond)
				}
			})
		},
	}
}

func redisAdmin(server *testbed.RedisServer, prefix string) map[string]fault {
	records := "{" + prefix + "}:record"
	return map[string]fault{
		"row deleted": adminFault("row deleted", func(r *run, election string) { server.Do(r, "HDEL", records, election) }),
		"row edited": adminFault("row edited", func(r *run, election string) {
			if text, ok := server.Do(r, "HGET", records, election).(string); ok {
				server.Do(r, "HSET", records, election, text+" ")
			}
		}),
		"all versions deleted": adminFault("all versions deleted", func(r *run, _ string) { server.Do(r, "DEL", "{"+prefix+"}:version") }),
		"epoch deleted":        adminFault("epoch deleted", func(r *run, _ string) { server.Do(r, "DEL", "{"+prefix+"}:origin") }),
		"connections closed": func(r *run) {
			r.inject("connections closed", server.Addr(), byCall, func() {
				for end := Now() + r.TTL; Now() < end; {
					server.Do(r, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
					r.wait(20*time.Millisecond, 200*time.Millisecond)
				}
			})
		},
	}
}

func curatorAdmin(addr, root string) map[string]fault {
	return map[string]fault{
		"lock deleted": adminFault("lock deleted", func(r *run, election string) {
			c, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
			if err != nil {
				r.Fatal(err)
			}
			defer c.Close()
			queues, _, err := c.Children(root + "/latch")
			if err != nil {
				r.Fatal(err)
			}
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

func zooKeeperAdmin(addr, root string) map[string]fault {
	with := func(name string, do func(c *zk.Conn, record string)) fault {
		return adminFault(name, func(r *run, election string) {
			c, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
			if err != nil {
				r.Fatal(err)
			}
			defer c.Close()
			do(c, root+"/record/"+strings.ReplaceAll(election, "/", "%2F"))
		})
	}
	return map[string]fault{
		"lock deleted": with("lock deleted", func(c *zk.Conn, record string) { c.Delete(record, -1) }),
		"session ended": with("session ended", func(c *zk.Conn, record string) {
			text, _, err := c.Get(record)
			var holder struct{ Nonce string }
			if err == nil && json.Unmarshal(text, &holder) == nil && holder.Nonce != "" {
				c.Delete(root+"/session/"+holder.Nonce, -1)
			}
		}),
	}
}
