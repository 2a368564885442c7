package all

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/backend/curator"
	"github.com/go-election/go-election/backend/etcd"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/mysqltable"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/backend/redis"
	"github.com/go-election/go-election/backend/zookeeper"
)

const canary = "canary7f3a"

// A backend or its options may be printed by accident, in a log line or a panic.
func TestPrintingABackendShowsNoSecret(t *testing.T) {
	opened := func(name, section string) backend.Backend {
		b, err := backend.Open(name, func(into any) error { return json.Unmarshal([]byte(section), into) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	for _, v := range []any{
		opened("mysql", `{"dsn": "app:`+canary+`@tcp(127.0.0.1:1)/app"}`),
		opened("mysqltable", `{"layout": "update_time", "dsn": "app:`+canary+`@tcp(127.0.0.1:1)/app"}`),
		opened("postgres", `{"dsn": "postgres://app:`+canary+`@127.0.0.1:1/app"}`),
		opened("redis", `{"addresses": ["127.0.0.1:1"], "username": "app", "password": "`+canary+`", "sentinel_password": "`+canary+`", "master": "m"}`),
		opened("etcd", `{"endpoints": ["http://127.0.0.1:1"], "username": "app", "password": "`+canary+`"}`),
		opened("consul", `{"address": "127.0.0.1:1", "token": "`+canary+`"}`),
		opened("curator", `{"servers": ["127.0.0.1:1"], "user": "app", "password": "`+canary+`"}`),
		opened("zookeeper", `{"servers": ["127.0.0.1:1"], "user": "app", "password": "`+canary+`"}`),
		mysql.Options{DSN: "app:" + canary + "@tcp(127.0.0.1:1)/app"},
		mysqltable.Options{MySQL: mysql.Options{DSN: "app:" + canary + "@tcp(127.0.0.1:1)/app"}},
		postgres.Options{DSN: "postgres://app:" + canary + "@127.0.0.1:1/app"},
		redis.Options{Username: "app", Password: canary, SentinelPassword: canary},
		etcd.Options{Username: "app", Password: canary},
		consul.Options{Token: canary},
		curator.Options{ZooKeeper: zookeeper.Options{User: "app", Password: canary}},
		zookeeper.Options{User: "app", Password: canary},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, canary) {
				t.Errorf("%T by %s: %s", v, verb, text)
			}
		}
	}
}
