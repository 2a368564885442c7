package migration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/s3"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

func s3Opener(t *testing.T) opener {
	t.Setenv("AWS_ACCESS_KEY_ID", testbed.S3AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testbed.S3SecretKey)
	node := testbed.SharedS3(t)
	o := s3.Options{Bucket: testbed.S3Bucket, Prefix: string(backend.NewNonce()[:12]) + "/", Region: "us-east-1", Endpoint: node.URL(), PathStyle: true}
	return func(t *testing.T) backend.Backend {
		b, err := s3.Open(o)
		return opened(t, b, err)
	}
}

// An election moves from Redis to an object and back, a member at each stage. Each member follows the one before,
// and leads after it in a greater term. At stage to Redis is sealed: a straggler that knows only it does not lead.
func TestAnElectionMovesToAnObjectAndBack(t *testing.T) {
	from, to := redisOpener(t), s3Opener(t)
	start := func(id string, b backend.Backend) (*election.Manager, *election.Election) {
		t.Helper()
		m, err := election.New(b, election.Options{ID: id, TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close(context.Background()) })
		e, err := m.Join("jobs")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Lead(nil); err != nil {
			t.Fatal(err)
		}
		return m, e
	}
	leader, e := start("before", from(t))
	testbed.Eventually(t, time.Minute, "the first to lead", leading(e))
	for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To, migration.Both, migration.From} {
		term := e.Leadership().Term
		b, err := migration.New(migration.Options{From: from(t), To: to(t), ToName: "object", Stage: stage})
		next, follower := start("at "+string(stage), opened(t, b, err))
		if err := leader.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		testbed.Eventually(t, time.Minute, "the next to lead at stage "+string(stage), leading(follower))
		if now := follower.Leadership(); now == nil || now.Term <= term {
			t.Errorf("at stage %s the leadership is %v, after term %d", stage, now, term)
		}
		leader, e = next, follower
		if stage != migration.To {
			continue
		}
		straggler, old := start("straggler", from(t))
		testbed.Eventually(t, time.Minute, "the straggler to learn that its election has moved", func() error {
			if ev := old.Current(); ev.Reason != "moved" {
				return fmt.Errorf("its state is %v", ev)
			}
			return nil
		})
		if old.Leading() || !e.Leading() {
			t.Errorf("the straggler leads: %v; the member at stage to leads: %v", old.Leading(), e.Leading())
		}
		straggler.Close(t.Context())
	}
}
