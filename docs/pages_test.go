package docs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	sqldriver "github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/go-election/go-election/backend"
	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/backend/curator"
	"github.com/go-election/go-election/backend/etcd"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/mysqltable"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/backend/redis"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// block returns the text of the fenced block that follows <!-- run: name -->.
func block(t *testing.T, page, name string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)<!-- run: " + name + " -->\n```\\w*\n(.*?)```").FindStringSubmatch(pages(t)[page])
	if m == nil {
		t.Fatalf("%s has no block %q", page, name)
	}
	return m[1]
}

// TestEveryConfigurationOnAPageIsAccepted parses every YAML block that names a backend.
func TestEveryConfigurationOnAPageIsAccepted(t *testing.T) {
	n := 0
	for page, text := range pages(t) {
		for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(m[1], "backend:") || strings.Contains(m[1], "backend: kubernetes") {
				continue // another program's configuration, or that of a module of its own, whose tests read it
			}
			n++
			if _, err := config.Parse(page, []byte(m[1]), config.Options{Environ: []string{}}); err != nil {
				t.Errorf("%v, in\n%s", err, m[1])
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d configurations found", n)
	}
}

// patience bounds every wait, on a very busy machine.
const patience = 3 * time.Minute

// electAndClose runs a manager on the store, twice: it leads, nominates, lists members and closes.
func electAndClose(t *testing.T, open func() (backend.Backend, error)) {
	t.Helper()
	for range 2 { // the second manager finds the first one's data
		b, err := open()
		testbed.NoError(t, err)
		// With this TTL a busy machine costs no leadership.
		m, err := election.New(b, election.Options{TTL: 12 * time.Second})
		testbed.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		e, err := m.Join("billing")
		testbed.NoError(t, err)
		if _, err := e.Campaign(ctx); err != nil {
			t.Fatalf("with the rights of the page: %v, %v", err, m.Status().Err)
		}
		if err := e.Nominate(ctx, "somebody"); err != nil {
			t.Errorf("with the rights of the page: %v", err)
		}
		testbed.Eventually(t, patience, "with the rights of the page a member is announced and seen", func() error {
			members, err := m.Members(ctx)
			if err == nil && len(members) == 0 {
				err = fmt.Errorf("there is none: %w", m.Status().Err)
			}
			return err
		})
		if err := m.Close(ctx); err != nil {
			t.Errorf("with the rights of the page: %v", err)
		}
	}
}

// The table and the rights on docs/mysql.md are enough, and its queries work.
func TestTheMySQLPageIsTrue(t *testing.T) {
	want, err := mysql.SchemaSQL("", "")
	if table := block(t, "mysql.md", "schema"); err != nil || !strings.HasPrefix(want, table) {
		t.Errorf("docs/mysql.md has the table\n%s\nand SchemaSQL %v\n%s", table, err, want)
	}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		host := regexp.MustCompile(`'@'([^']*)'`).FindStringSubmatch(grants(t, d))[1]
		suffix := string(backend.NewNonce()[:8])
		adapt := strings.NewReplacer("'app'@'%'", "'app"+suffix+"'@'"+host+"'", "'observer'@'%'", "'observer"+suffix+"'@'"+host+"'", " app.", " "+d.Name+".").Replace
		for _, name := range []string{"schema", "rights"} {
			d.Exec(t, split(adapt(block(t, "mysql.md", name)))...)
		}
		t.Cleanup(func() {
			for _, user := range []string{"app", "observer"} {
				d.Exec(t, fmt.Sprintf("DROP USER '%s%s'@'%s'", user, suffix, host))
			}
		})
		as := func(user string) *sqldriver.Config {
			c := d.User.Clone()
			c.User, c.Passwd = user+suffix, "secret"
			return c
		}
		electAndClose(t, func() (backend.Backend, error) { return mysql.Open(mysql.Options{Config: as("app")}) })
		haveRows(t, testbed.OpenDB(t, as("observer")), block(t, "mysql.md", "inspect"))
		readAsObserver(t, func() (backend.Backend, error) { return mysql.Open(mysql.Options{Config: as("observer")}) })
		d.Exec(t, split(block(t, "mysql.md", "max_ttl"))...)
	})
}

// The table and the rights on docs/postgres.md are enough, and its queries work.
func TestThePostgresPageIsTrue(t *testing.T) {
	d := testbed.SharedPostgres(t).Database(t)
	want, err := postgres.SchemaSQL("", "")
	if table := block(t, "postgres.md", "schema"); err != nil || !strings.HasPrefix(want, table) {
		t.Errorf("docs/postgres.md has the table\n%s\nand SchemaSQL %v\n%s", table, err, want)
	}
	app, observer := "app_"+d.Name, "observer_"+d.Name
	adapt := strings.NewReplacer(" app", " "+app, " observer", " "+observer).Replace
	for _, name := range []string{"schema", "rights"} {
		d.Exec(t, split(adapt(block(t, "postgres.md", name)))...)
	}
	t.Cleanup(func() { d.Exec(t, "DROP TABLE election_item", "DROP ROLE "+app, "DROP ROLE "+observer) })
	open := func(user string) (backend.Backend, error) {
		return postgres.Open(postgres.Options{DSN: d.DSNOf(user, "secret", "")})
	}
	electAndClose(t, func() (backend.Backend, error) { return open(app) })
	for _, s := range split(block(t, "postgres.md", "inspect")) {
		if got := d.Value(t, "BEGIN; SET LOCAL ROLE "+observer+"; "+s+"; COMMIT"); got == "" && !strings.Contains(s, "session") {
			t.Errorf("%s: no rows", s)
		}
	}
	readAsObserver(t, func() (backend.Backend, error) { return open(observer) })
	d.Exec(t, split(block(t, "postgres.md", "max_ttl"))...)
}

// The rights on docs/redis.md are enough, and its commands work.
func TestTheRedisPageIsTrue(t *testing.T) {
	server := testbed.StartRedis(t, testbed.Options{})
	run := func(name string) (answers []any) {
		for _, line := range strings.Split(strings.TrimSpace(block(t, "redis.md", name)), "\n") {
			var args []any
			for _, word := range strings.Fields(line) {
				args = append(args, word)
			}
			answers = append(answers, server.Do(t, args...))
		}
		return answers
	}
	run("rights")
	open := func(user string) (backend.Backend, error) {
		return redis.Open(redis.Options{Addresses: []string{server.Addr()}, Username: user, Password: "secret", MaxTTL: 20 * time.Second})
	}
	electAndClose(t, func() (backend.Backend, error) { return open("app") })
	for i, answer := range run("inspect") {
		if text := fmt.Sprint(answer); !strings.Contains(text, []string{"billing", "", "max_ttl"}[i]) {
			t.Errorf("command %d of the page answers %s", i, text)
		}
	}
	readAsObserver(t, func() (backend.Backend, error) { return open("observer") })
	run("max_ttl")
}

// The rights on docs/mysqltable.md are enough beside a fleet's table, and its queries work.
func TestTheMySQLTablePageIsTrue(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", mysqltable.DefaultPrefix))
		d.Exec(t, "CREATE TABLE leader_election (id int unsigned NOT NULL AUTO_INCREMENT, name varchar(128) NOT NULL, node varchar(128) NOT NULL, "+
			"last_seen_active timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id), UNIQUE KEY (name))")
		host := regexp.MustCompile(`'@'([^']*)'`).FindStringSubmatch(grants(t, d))[1]
		user := "tab" + string(backend.NewNonce()[:8])
		adapt := strings.NewReplacer("'app'@'%'", "'"+user+"'@'"+host+"'", " app.", " "+d.Name+".").Replace
		d.Exec(t, split(adapt(block(t, "mysqltable.md", "table-rights")))...)
		t.Cleanup(func() { d.Exec(t, fmt.Sprintf("DROP USER '%s'@'%s'", user, host)) })
		account := d.User.Clone()
		account.User, account.Passwd = user, "secret"
		// A threshold that leaves room for the TTL of electAndClose.
		o := mysqltable.Options{MySQL: mysql.Options{Config: account}, Layout: mysqltable.LastSeenActive, Threshold: 30 * time.Second}
		electAndClose(t, func() (backend.Backend, error) { return mysqltable.Open(o) })
		haveRows(t, testbed.OpenDB(t, account), block(t, "mysqltable.md", "table-inspect"))
	})
}

// grants returns the user of this database with the host that it may connect from.
func grants(t *testing.T, d *testbed.Database) (s string) {
	t.Helper()
	testbed.NoError(t, testbed.OpenDB(t, d.Admin).QueryRow("SELECT CONCAT('''', USER, '''@''', HOST, '''') FROM mysql.user WHERE USER = ?", d.User.User).Scan(&s))
	return s
}

// haveRows runs queries, of which only those about sessions may have no rows.
func haveRows(t *testing.T, db *sql.DB, queries string) {
	t.Helper()
	for _, s := range split(queries) {
		rows, err := db.Query(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if !rows.Next() && !strings.Contains(s, "session") {
			t.Errorf("%s: no rows", s)
		}
		rows.Close()
	}
}

func split(text string) (list []string) {
	for s := range strings.SplitSeq(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// readAsObserver checks that an observer sees the last leadership and the history.
func readAsObserver(t *testing.T, open func() (backend.Backend, error)) {
	t.Helper()
	b, err := open()
	testbed.NoError(t, err)
	m, err := election.New(b, election.Options{Observer: true})
	testbed.NoError(t, err)
	defer m.Close(t.Context())
	e, err := m.Join("billing")
	testbed.NoError(t, err)
	testbed.Eventually(t, patience, "an observer with the rights of the page sees the last leadership", func() error {
		if c := e.Current(); c.Kind != election.Vacant || c.Term == 0 {
			return fmt.Errorf("%v: %w", c, m.Status().Err)
		}
		return nil
	})
	if r, err := e.Record(t.Context()); err != nil || len(r.History) == 0 {
		t.Errorf("the history that an observer reads: %v, %v", r.History, err)
	}
}

// The policies on docs/consul.md are enough.
func TestTheConsulPageIsTrue(t *testing.T) {
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL}})
	root, err := api.NewClient(&api.Config{Address: agent.URL(), Token: testbed.ConsulToken})
	testbed.NoError(t, err)
	options := func(page string) consul.Options {
		policy, _, err := root.ACL().PolicyCreate(&api.ACLPolicy{Name: page[:len(page)-3], Rules: block(t, page, "rights")}, nil)
		testbed.NoError(t, err)
		token, _, err := root.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
		testbed.NoError(t, err)
		return consul.Options{Address: agent.URL(), Token: token.SecretID}
	}
	native := options("consul.md")
	electAndClose(t, func() (backend.Backend, error) { return consul.Open(native) })
}

// The nodes that docs/curator.md creates are enough for a user without other rights.
func TestTheCuratorPageIsTrue(t *testing.T) {
	zooKeeperPage(t, "curator.md", func(server, user, password string) (backend.Backend, error) {
		return curator.Open(curator.Options{ZooKeeper: zookeeper.Options{Servers: []string{server}, User: user, Password: password}})
	})
}

// So is the root that docs/zookeeper.md creates.
func TestTheZooKeeperPageIsTrue(t *testing.T) {
	zooKeeperPage(t, "zookeeper.md", func(server, user, password string) (backend.Backend, error) {
		return zookeeper.Open(zookeeper.Options{Servers: []string{server}, User: user, Password: password})
	})
}

// zooKeeperPage elects with the rights of a page, on a server whose root nobody may write.
func zooKeeperPage(t *testing.T, page string, open func(server, user, password string) (backend.Backend, error)) {
	server := testbed.StartZooKeeper(t, testbed.Options{Args: []string{"maxSessionTimeout=40000"}})
	admin := testbed.DialZooKeeper(t, []string{server.Addr()})
	created := 0
	for line := range strings.Lines(block(t, page, "rights")) {
		var path, rights, password string
		_, err := fmt.Sscanf(line, "addauth digest app:%s", &password)
		if err == nil {
			err = admin.AddAuth("digest", []byte("app:"+password))
		} else if _, err = fmt.Sscanf(line, `create %s "" auth::%s`, &path, &rights); err == nil {
			if rights != "cdrw" {
				t.Errorf("the page gives %s on %s, the least is cdrw", rights, path)
			}
			_, err = admin.Create(path, nil, 0, zk.AuthACL(zk.PermRead|zk.PermWrite|zk.PermCreate|zk.PermDelete))
			created++
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if created == 0 {
		t.Fatal("the page creates no node")
	}
	_, err := admin.SetACL("/", zk.WorldACL(zk.PermRead), -1)
	testbed.NoError(t, err)
	electAndClose(t, func() (backend.Backend, error) { return open(server.Addr(), "app", "secret") })
}

// The role on docs/etcd.md is enough.
func TestTheEtcdPageIsTrue(t *testing.T) {
	node := testbed.StartEtcd(t, testbed.Options{Args: []string{"--bcrypt-cost=4"}})
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{node.URL()}, Logger: zap.NewNop()})
	testbed.NoError(t, err)
	defer root.Close()
	ctx := t.Context()
	for line := range strings.Lines(block(t, "etcd.md", "rights")) {
		var err error
		switch w := strings.Fields(line); strings.Join(w[1:3], " ") {
		case "role add":
			_, err = root.RoleAdd(ctx, w[3])
		case "role grant-permission":
			if w[4] != "readwrite" || w[5] != "--prefix=true" {
				t.Fatalf("unknown permission: %q", line)
			}
			_, err = root.RoleGrantPermission(ctx, w[3], w[6], clientv3.GetPrefixRangeEnd(w[6]), clientv3.PermissionType(clientv3.PermReadWrite))
		case "user add":
			name, password, _ := strings.Cut(w[3], ":")
			_, err = root.UserAdd(ctx, name, password)
		case "user grant-role":
			_, err = root.UserGrantRole(ctx, w[3], w[4])
		default:
			t.Fatalf("unknown command: %q", line)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	_, err1 := root.UserAdd(ctx, "root", "root")
	_, err2 := root.UserGrantRole(ctx, "root", "root")
	_, err3 := root.AuthEnable(ctx)
	testbed.NoError(t, errors.Join(err1, err2, err3))
	o := etcd.Options{Endpoints: []string{node.URL()}, Username: "app", Password: "secret"}
	electAndClose(t, func() (backend.Backend, error) { return etcd.Open(o) })
}
