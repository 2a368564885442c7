package all

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"

	driver "github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/backend/etcd"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/testbed"
)

// A location tells an operator of several stores which one this is. It holds no secret.
func TestALocationNamesTheStoreAndNoSecret(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "elections")
	opened := func(name, section string) backend.Backend {
		b, err := backend.Open(name, func(into any) error { return json.Unmarshal([]byte(section), into) })
		testbed.NoError(t, err)
		t.Cleanup(func() { b.Close() })
		return b
	}
	must := func(b backend.Backend, err error) backend.Backend {
		testbed.NoError(t, err)
		t.Cleanup(func() { b.Close() })
		return b
	}
	db := func() backend.Backend { return opened("mysql", `{"dsn": "`+canary+`:`+canary+`@tcp(db1)/app"}`) }
	keys := func() backend.Backend {
		return opened("etcd", `{"endpoints": ["http://e1:2379", "e2:2379"], "username": "app", "password": "`+canary+`"}`)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://u:" + canary + "@e1:2379"}})
	testbed.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	for _, c := range []struct {
		b    backend.Backend
		want string
	}{
		{db(), "db1:3306/app/election"},
		{opened("mysql", `{"dsn": "app:`+canary+`@unix(/run/db.sock)/app", "schema": "other", "prefix": "jobs"}`), "/run/db.sock/other/jobs"},
		{must(mysql.Open(mysql.Options{Config: &driver.Config{User: "app", Passwd: canary, DBName: "app"}})), "127.0.0.1:3306/app/election"},
		{opened("mysqltable", `{"layout": "update_time", "dsn": "app:`+canary+`@tcp(db1:3307)/app"}`), "db1:3307/app/election_shared"},
		{opened("postgres", `{"dsn": "postgres://`+canary+`:`+canary+`@p1,p2:6432/app?sslmode=disable", "schema": "s", "prefix": "jobs"}`), "p1:5432,p2:6432/app/s/jobs"},
		{opened("postgres", `{"dsn": "host=p1 user=`+canary+` password=`+canary+` dbname=app"}`), "p1:5432/app/election"},
		{opened("redis", `{"addresses": ["r1"], "username": "`+canary+`", "password": "`+canary+`", "db": 2}`), "r1:6379/2/election"},
		{opened("redis", `{"addresses": ["s1", "s2:1"], "master": "m", "sentinel_password": "`+canary+`", "prefix": "jobs"}`), "s1:26379,s2:1/m/0/jobs"},
		{keys(), "e1:2379,e2:2379/election"},
		{must(etcd.Open(etcd.Options{Client: client})), "e1:2379/election"},
		{opened("consul", `{"address": "https://c1:8501/`+canary+`", "token": "`+canary+`", "prefix": "app/jobs"}`), "c1:8501/app/jobs"},
		{opened("consul", `{"address": "unix:///run/consul.sock", "token": "`+canary+`"}`), "/run/consul.sock/election"},
		{must(consul.Open(consul.Options{Client: new(api.Client)})), ""},
		{opened("curator", `{"servers": ["127.0.0.1", "127.0.0.1:2182"], "user": "app", "password": "`+canary+`", "root": "/app"}`), "127.0.0.1:2181,127.0.0.1:2182/app"},
		{opened("zookeeper", `{"servers": ["127.0.0.1", "127.0.0.1:2182"], "user": "app", "password": "`+canary+`", "root": "/app"}`), "127.0.0.1:2181,127.0.0.1:2182/app"},
		{opened("s3", `{"bucket": "app", "region": "eu-central-1"}`), "s3.eu-central-1.amazonaws.com/app/election"},
		{opened("s3", `{"bucket": "app", "prefix": "jobs/", "region": "r", "endpoint": "https://s3.example.com:9000"}`), "s3.example.com:9000/app/jobs"},
		{opened("file", `{"dir": "`+dir+`"}`), dir},
		{opened("manual", `{"leader": "self", "dir": "`+dir+`"}`), dir},
		{opened("manual", `{"file": "/etc/leader.json"}`), "/etc/leader.json"},
		{opened("memory", `{}`), ""},
		{must(migration.New(migration.Options{From: keys(), To: db(), Stage: migration.Both})), "from etcd e1:2379,e2:2379/election to mysql db1:3306/app/election"},
		{must(migration.New(migration.Options{From: db(), Stage: migration.From})), "from mysql db1:3306/app/election"},
	} {
		got := clean.Where(c.b)
		if got != c.want {
			t.Errorf("the location of a %s is %q, want %q", c.b.Guarantees().Name, got, c.want)
		}
		if strings.Contains(got, canary) {
			t.Errorf("the location of a %s shows a secret: %s", c.b.Guarantees().Name, got)
		}
	}
}
