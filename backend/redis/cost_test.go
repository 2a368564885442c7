package redis

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A thousand idle elections cost no more requests than one, and nothing polls.
func TestManyIdleElectionsCostNoMoreThanOne(t *testing.T) {
	t.Parallel()
	const ttl, idle = 6 * time.Second, 18 * time.Second
	for _, elections := range []int{1, 1000} {
		for _, candidates := range []int{1, 2} {
			t.Run(fmt.Sprintf("%d elections, %d candidates", elections, candidates), func(t *testing.T) {
				t.Parallel()
				server := testbed.StartRedis(t, testbed.Options{})
				o := settled(t, server, options(server))
				for i := range candidates {
					drivertest.Settle(t, backendOn(t, o), elections, ttl, i == 0)
				}
				perTTL := 3 // renewals
				if candidates == 2 {
					perTTL += 3 + 1           // the follower reads, and writes its session
					if elections > maxParts { // a reading of all takes several requests
						perTTL += 1 + (elections+1)/maxParts
					}
				}
				// Twice as many are allowed, since connections are made anew. On a busy machine requests are
				// sent again, until it is calm for a while.
				testbed.Eventually(t, patience, "few requests are sent", func() error {
					before := server.Requests(t)
					<-time.After(idle)
					spent, most := server.Requests(t)-before, 2*int(idle/ttl)*perTTL+2
					if t.Logf("%d elections, %d candidates, %v: %d requests", elections, candidates, idle, spent); spent > most {
						return fmt.Errorf("%d requests in %v, want at most %d", spent, idle, most)
					}
					return nil
				})
			})
		}
	}
}

// A listener whose connection was closed by the server says that something may have changed, and then
// hears of changes again.
func TestAListenerComesBack(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	o := options(server)
	d, writer := open(t, o), open(t, o)
	heard := drivertest.Listen(t, d)
	last := uint64(0)
	told := func(what string) {
		t.Helper()
		now := heard.Told(t, what)
		if now <= last {
			t.Errorf("position %d after %d", now, last)
		}
		last = now
	}
	for range 3 {
		told("the beginning of listening")
		drivertest.Notify(t, writer)
		told("a change")
		server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	}
}

// A thousand elections that change at once are a few messages to each process, not a thousand.
func TestManyChangesAreFewNotifications(t *testing.T) {
	t.Parallel()
	o := options(testbed.SharedRedis(t))
	writer, listener := open(t, o), open(t, o)
	v := drivertest.Read(t, writer)
	_, _, changed := listener.listen(0)
	before := listener.currentPosition()
	<-changed // it listens
	var changes []lease.Change
	for i := range 1000 {
		name := fmt.Sprint("jobs", i)
		changes = append(changes, lease.Change{Notify: true, Put: []lease.Put{{Over: lease.Item{Key: recordKey(name)}, Value: &lease.Record{Election: name, Term: 1}}}})
	}
	w, err := writer.Write(t.Context(), v.Epoch, 0, changes, nil)
	if err != nil || w.Results[999].Outcome != backend.Granted {
		t.Fatal(err)
	}
	testbed.Eventually(t, patience, "it is told", func() error {
		if now := listener.currentPosition(); now < before+2 {
			return fmt.Errorf("position %d after %d", now, before)
		}
		return nil
	})
	if now := listener.currentPosition(); now > before+6 {
		t.Errorf("%d notifications of 1,000 changes", now-before-1)
	}
}

// A program's own client need not end a call with its context: the driver does, and the client stays open.
func TestACallEndsWithItsContextWhateverTheClientDoes(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	client := ownClient(t, &goredis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	d := open(t, Options{Client: client})
	v := drivertest.Read(t, d)
	server.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := d.Write(ctx, v.Epoch, 0, []lease.Change{{Put: []lease.Put{{Over: lease.Item{Key: recordKey("jobs")}, Value: &lease.Record{Election: "jobs", Term: 1}}}}}, nil)
	if took := time.Since(began); !errors.Is(err, backend.ErrUnavailable) || took > 10*time.Second {
		t.Errorf("a call to a stopped server: %v after %v", err, took)
	}
	server.Continue(t)
	d.Close()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the program's client after Close: %v", err)
	}
}
