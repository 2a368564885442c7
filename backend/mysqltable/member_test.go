package mysqltable

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// memberArg makes the test binary a member of this module.
const memberArg = "ELECTION_MYSQLTABLE_MEMBER"

// A memberConfig configures it.
type memberConfig struct {
	ID, DSN   string
	Layout    Layout
	Threshold time.Duration
	Stage     migration.Stage // of the migration to mysql; "": none
}

func TestMain(m *testing.M) {
	if arg := os.Getenv(memberArg); arg != "" {
		var c memberConfig
		err := json.Unmarshal([]byte(arg), &c)
		var b backend.Backend
		if err == nil {
			b, err = c.open()
		}
		testbed.PlayMember(b, err, election.Options{ID: c.ID, TTL: ttl}, "jobs")
	}
	os.Exit(m.Run())
}

func (c memberConfig) open() (backend.Backend, error) {
	table, err := Open(Options{MySQL: mysql.Options{DSN: c.DSN}, Layout: c.Layout, Threshold: c.Threshold})
	if err != nil || c.Stage == "" {
		return table, err
	}
	native, err := mysql.Open(mysql.Options{DSN: c.DSN})
	if err != nil {
		return nil, err
	}
	return migration.New(migration.Options{From: table, To: native, Stage: c.Stage})
}

// A fleet is a set of processes that elect by one row: members of this module, and Java programs.
type fleet struct {
	*testbed.Fleet
	*lab
	t *testing.T
}

// member starts a member of this module, perhaps at a stage of the migration to mysql.
func (f *fleet) member(id string, stage migration.Stage) *testbed.Member {
	f.t.Helper()
	return f.Program(id, true, memberArg, memberConfig{id, f.User.FormatDSN(), f.options.Layout, f.options.Threshold, stage})
}

//go:embed testdata/Member.java
var programSource []byte

var javaProgram = testbed.JavaProgram(programSource, "libmariadb-java", "mariadb", "mariadb-java-client")

// program starts a member of another program.
func (f *fleet) program(id string) *testbed.Member {
	f.t.Helper()
	check := map[Layout]string{
		LastSeenActive: "select count(*) as is_leader from leader_election where name=? and node=?",
		UpdateTime:     "select count(*) from leader_election where service_id=? and leader_id=?",
	}[f.options.Layout]
	// The first fleet goes by the number of changed rows, which needs useAffectedRows.
	url := fmt.Sprintf("jdbc:mariadb://%s/%s?useAffectedRows=true&allowPublicKeyRetrieval=true", f.User.Addr, f.Name)
	return f.Add(javaProgram(f.t, id, url, f.User.User, f.User.Passwd, fmt.Sprintf(upserts[f.options.Layout], "leader_election"), check, "jobs", id,
		fmt.Sprint(int(f.options.Threshold/time.Second)), fmt.Sprint(theirPeriod.Milliseconds())), false)
}

// runs waits until another program has run n times more.
func (f *fleet) runs(m *testbed.Member, n int) {
	f.t.Helper()
	count := func() (n int) {
		fmt.Sscanf(m.Last("run"), "run %d", &n)
		return n
	}
	before := count()
	testbed.Eventually(f.t, patient, fmt.Sprintf("%s runs %d times", m.ID, n), func() error {
		if now := count(); now <= before+n {
			return fmt.Errorf("it has run %d times", now-before)
		}
		return nil
	})
}
