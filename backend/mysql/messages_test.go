package mysql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A change whose answer is lost is sent again, and the copy has no effect. It is granted once.
func TestALostReplyGrantsOnce(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Shared(t, k)
		l := newLab(t, server)
		for _, fate := range []testbed.Fate{testbed.LoseReply, testbed.LoseRequest} {
			name, proxy := "jobs "+string(fate), server.Proxy(t)
			d := open(t, Options{Config: proxy.Config(l.User)})
			v := drivertest.Read(t, d, recordKey(name))
			trap := proxy.Trap("START TRANSACTION", fate)
			ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
			w, err := d.Write(ctx, v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: name, Term: 1}}}}}, nil)
			cancel()
			trap.Wait(t, patience)
			want := backend.Granted
			if fate == testbed.LoseReply {
				want = backend.Refused // the lease protocol reads what is there
			}
			if err != nil || w.Results[0].Outcome != want {
				t.Errorf("%s: %+v, %v; want %v", fate, w, err, want)
			}
			if r, ok := drivertest.Read(t, d, recordKey(name)).Items[0].Value.(*lease.Record); !ok || r.Term != 1 {
				t.Errorf("%s: the record is %+v", fate, r)
			}
		}
	})
}

// A change that arrives late, after its sender has given up and another change was made, has no effect.
func TestALateChangeDoesNothing(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Shared(t, k)
		l := newLab(t, server)
		for _, exists := range []bool{false, true} {
			proxy, account := server.Proxy(t), l.AddUser(t)
			name := fmt.Sprint("jobs ", exists)
			d, other := open(t, Options{Config: proxy.Config(account), Poll: true}), open(t, Options{Config: l.User})
			v := drivertest.Read(t, d, recordKey(name))
			if exists {
				drivertest.MustPut(t, d, &v, &lease.Record{Election: name, Term: 1})
				v = drivertest.Read(t, d, recordKey(name))
			}
			trap := proxy.Trap("START TRANSACTION", testbed.HoldRequest)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan bool)
			go func() {
				d.Write(ctx, v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: name, Term: 9}}}}}, nil)
				close(done)
			}()
			trap.Wait(t, patience)
			cancel()
			<-done
			d.Close() // its connections end, with no answer
			drivertest.MustPut(t, other, &v, &lease.Record{Election: name, Term: 2})
			trap.Release()
			testbed.Eventually(t, patience, "the late request is executed", func() error {
				if n := l.connections(t, account.User); n > 0 {
					return fmt.Errorf("%d connections are left", n)
				}
				return nil
			})
			if r := drivertest.Read(t, other, recordKey(name)).Items[0].Value.(*lease.Record); r.Term != 2 {
				t.Errorf("a late change, over a row that exists (%v), has made term %d", exists, r.Term)
			}
		}
	})
}

// A process that is stopped with half of its message sent holds no lock.
func TestAHalfSentChangeHoldsNoLock(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Shared(t, k)
		l, proxy := newLab(t, server), server.Proxy(t)
		d, other := open(t, Options{Config: proxy.Config(l.User), Poll: true}), open(t, Options{Config: l.User, Poll: true})
		v := drivertest.Read(t, d, recordKey("jobs"), recordKey("large"))
		trap := proxy.Trap("COMMIT", testbed.HoldRequest)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() {
			defer close(ended)
			d.Write(ctx, v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{
				{Over: v.Items[0], Value: &lease.Record{Election: "jobs", Term: 9}},
				{Over: v.Items[1], Value: &lease.Record{Election: "large", Metadata: strings.Repeat("x", 500_000)}}}}}, nil)
		}()
		trap.Wait(t, patience)
		proxy.SetTarget("127.0.0.1:1") // it is stopped, and sends no copy
		drivertest.MustPut(t, other, &v, &lease.Record{Election: "jobs", Term: 2})
		cancel()
		<-ended
	})
}
