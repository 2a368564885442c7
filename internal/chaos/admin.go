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
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// What an administrator can do by hand to what this module keeps in a store: delete a
// lock, or end the session that it hangs on. The holder finds out at its next renewal,
// and until then nobody else may lead.

func ask(r *run, method, address string, body any, into any) {
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

// byHand is a fault of one election that an administrator makes.
func byHand(name string, f func(r *run, election string)) fault {
	return func(r *run) {
		election := elections[r.IntN(len(elections))]
		r.during(name, election, byEnd, func() { f(r, election) })
		r.pass(r.TTL/2, r.TTL) // the holder finds out meanwhile
	}
}

func consulAdmin(base, prefix string) map[string]fault {
	key := func(election string) string {
		return base + "/v1/kv/" + prefix + "/leases/lock/" + (&url.URL{Path: election}).EscapedPath()
	}
	return map[string]fault{
		"lock deleted": byHand("lock deleted", func(r *run, election string) { ask(r, http.MethodDelete, key(election), nil, nil) }),
		"session ended": byHand("session ended", func(r *run, election string) {
			var found []struct{ Session string }
			ask(r, http.MethodGet, key(election), nil, &found)
			if len(found) == 1 && found[0].Session != "" {
				ask(r, http.MethodPut, base+"/v1/session/destroy/"+found[0].Session, nil, nil)
			}
		}),
	}
}

func etcdAdmin(base, prefix string) map[string]fault {
	key := func(key string) map[string]any {
		return map[string]any{"key": base64.StdEncoding.EncodeToString([]byte(prefix + key))}
	}
	return map[string]fault{
		"lock deleted": byHand("lock deleted", func(r *run, election string) {
			ask(r, http.MethodPost, base+"/v3/kv/deleterange", key("record/"+election), nil)
		}),
		"session ended": byHand("session ended", func(r *run, election string) {
			var found struct{ Kvs []struct{ Value []byte } }
			ask(r, http.MethodPost, base+"/v3/kv/range", key("record/"+election), &found)
			var record struct{ Session string }
			if len(found.Kvs) == 1 && json.Unmarshal(found.Kvs[0].Value, &record) == nil && record.Session != "" {
				ask(r, http.MethodPost, base+"/v3/kv/deleterange", key("heartbeat/"+record.Session), nil)
			}
		}),
	}
}

func zookeeperAdmin(addr, root string) map[string]fault {
	return map[string]fault{
		"lock deleted": byHand("lock deleted", func(r *run, election string) {
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
