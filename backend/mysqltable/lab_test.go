package mysqltable

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// createSQL has the statements by which the fleets have created their tables, unchanged except for the name.
var createSQL = map[Layout]string{
	LastActiveTime: "CREATE TABLE %s (\n" +
		"    service_id varchar(128) NOT NULL COMMENT '服务名称，如：AS',\n" +
		"    leader_id varchar(128) NOT NULL COMMENT '主节点ID，可以用hostname代替',\n" +
		"    last_active_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT '活跃时间，一般使用mysql函数now()生成',\n" +
		"    PRIMARY KEY (service_id)\n" +
		") ENGINE=InnoDB DEFAULT CHARSET=utf8 COMMENT='select master node'",
	LastSeenActive: "CREATE TABLE %s (\n" +
		"  id int(10) unsigned not null auto_increment comment '主键id',\n" +
		"  name varchar(128) not null default '' comment '名称',\n" +
		"  node varchar(128) NOT NULL default '' comment '节点',\n" +
		"  last_seen_active timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP comment '最后更新时间',\n" +
		"  PRIMARY KEY (id),\n" +
		"  unique key uniq_idx_name(name)\n" +
		") ENGINE=InnoDB default charset=utf8mb4 comment 'leader选举'",
	UpdateTime: "CREATE TABLE IF NOT EXISTS %s (\n" +
		"  `service_id` varchar(50) NOT NULL DEFAULT '',\n" +
		"  `leader_id` varchar(50) NOT NULL DEFAULT '',\n" +
		"  `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,\n" +
		"  PRIMARY KEY (`service_id`),\n" +
		"  UNIQUE KEY `uniq_service_id` (`service_id`)\n" +
		") ENGINE=InnoDB DEFAULT CHARSET=utf8",
}

// upserts has the statements by which the fleets elect, unchanged except for the table and the
// form of the parameters: key, holder, threshold.
var upserts = map[Layout]string{
	LastActiveTime: `insert ignore into %s(service_id, leader_id, last_active_time) values(?, ?, now()) on duplicate key update leader_id = if(last_active_time <= now() - interval ? second, values(leader_id), leader_id), last_active_time = if(leader_id = values(leader_id), values(last_active_time), last_active_time)`,
	LastSeenActive: `insert ignore into %s (name, node, last_seen_active) values (?, ?, now()) on duplicate key update node = if(last_seen_active < DATE_SUB(now(), INTERVAL ? SECOND), values(node), node),
last_seen_active = if(node = values(node), values(last_seen_active), last_seen_active)`,
	UpdateTime: `insert ignore into %s (service_id, leader_id, update_time) values (?, ?, now())
on duplicate key update leader_id = if(timestampdiff(second, update_time, now()) > ?, values(leader_id), leader_id),
update_time = if(leader_id = values(leader_id), values(update_time), update_time)`,
}

var layouts = []Layout{LastActiveTime, LastSeenActive, UpdateTime}

// A lab is a database with this module's tables and a fleet's.
type lab struct {
	*testbed.Database
	admin   *sql.DB
	options Options
}

func newLab(t testing.TB, k testbed.Kind, layout Layout, threshold time.Duration) *lab {
	t.Helper()
	d := testbed.Shared(t, k).Database(t)
	config := d.User.Clone()
	config.Timeout, config.ReadTimeout, config.WriteTimeout = patient, patient, patient
	l := &lab{d, testbed.OpenDB(t, d.Admin), Options{MySQL: mysql.Options{Config: config}, Layout: layout, Threshold: threshold}}
	testbed.NoError(t, mysql.CreateTables(t.Context(), l.admin, "", DefaultPrefix))
	l.exec(t, fmt.Sprintf(createSQL[layout], "leader_election"))
	return l
}

func (l *lab) exec(t testing.TB, text string, args ...any) {
	t.Helper()
	if _, err := l.admin.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// runOnce runs another program's statement once, on a new connection with these session
// settings, and returns the holder that the row names then.
func (l *lab) runOnce(t testing.TB, key, id string, session ...string) (leader string) {
	t.Helper()
	conn, err := l.admin.Conn(t.Context())
	testbed.NoError(t, err)
	defer conn.Close()
	defer conn.Raw(func(any) error { return driver.ErrBadConn }) // drop it with its session settings
	for _, s := range session {
		_, err := conn.ExecContext(t.Context(), "SET "+s)
		testbed.NoError(t, err)
	}
	o := l.options
	_, err = conn.ExecContext(t.Context(), fmt.Sprintf(upserts[o.Layout], "leader_election"), key, id, int64(o.Threshold/time.Second))
	testbed.NoError(t, err)
	return l.leader(t, key)
}

// leader returns the holder that the row names.
func (l *lab) leader(t testing.TB, key string) (id string) {
	t.Helper()
	s := shapes[l.options.Layout]
	testbed.NoError(t, l.admin.QueryRowContext(t.Context(), fmt.Sprintf("SELECT %s FROM leader_election WHERE %s = ?", s.holder, s.key), key).Scan(&id))
	return id
}

// A node is one member of this module: a Backend and its candidate.
type node struct {
	*Backend
	*drivertest.Candidate
}

// ttl is the TTL of the leases in these tests.
const ttl = 2 * time.Second

func (l *lab) node(t testing.TB, id string) *node {
	t.Helper()
	b := testbed.Open(t, Open, l.options)
	return &node{b, drivertest.NewCandidate(t, b, id, ttl)}
}
