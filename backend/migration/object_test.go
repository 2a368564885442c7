package migration_test

import (
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
	t.Parallel()
	from, to := redisOpener(t), s3Opener(t)
	start := func(id string, b backend.Backend) (*election.Election, func()) {
		t.Helper()
		e, stop := campaignAs(t, b, election.Options{ID: id, TTL: 3 * time.Second})
		t.Cleanup(stop)
		return e, stop
	}
	e, stop := start("before", from(t))
	testbed.Leads(t, e)
	for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To, migration.Both, migration.From} {
		term := e.Leadership().Term
		b, err := migration.New(migration.Options{From: from(t), To: to(t), ToName: "object", Stage: stage})
		follower, stopNext := start("at "+string(stage), opened(t, b, err))
		stop()
		testbed.Leads(t, follower)
		if now := follower.Leadership(); now == nil || now.Term <= term {
			t.Errorf("at stage %s the leadership is %v, after term %d", stage, now, term)
		}
		e, stop = follower, stopNext
		if stage != migration.To {
			continue
		}
		old, end := start("straggler", from(t))
		testbed.Eventually(t, time.Minute, "the straggler to learn that its election has moved", func() error {
			if ev := old.Current(); ev.Reason != "moved" {
				return fmt.Errorf("its state is %v", ev)
			}
			return nil
		})
		if old.Leading() || !e.Leading() {
			t.Errorf("the straggler leads: %v; the member at stage to leads: %v", old.Leading(), e.Leading())
		}
		end()
	}
}
