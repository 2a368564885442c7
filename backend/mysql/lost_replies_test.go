package mysql

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// replyTimeout is how long a call waits whose reply may be lost: longer than any other call
// takes on a busy machine.
const replyTimeout = 2 * time.Second

// wireText has a text by which each statement can be recognised on the wire.
var wireText = map[string]string{
	"create the row":   "INSERT INTO `election_lease`",
	"commit the row":   "COMMIT",
	"grant":            "t.term = s.next",
	"renew":            "l.request <> 'depose'",
	"release":          "l.holder = ''",
	"confirm or read":  "SELECT l.name",
	"announce":         "UPDATE `election_member`",
	"request":          "SET request =",
	"check the tables": "information_schema.COLUMNS",
}

func TestALostReplyGrantsNothing(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for what, text := range wireText {
			for _, fate := range []testbed.Fate{testbed.LoseReply, testbed.LoseRequest} {
				t.Run(fmt.Sprintf("%s, %s", what, fate), func(t *testing.T) {
					t.Parallel()
					l := newLab(t, k)
					proxy := l.server.Proxy(t)
					n := openNode(t, "n", Options{Config: proxy.Config(l.User), NotifyConns: -1})
					other := l.node(t, "other")
					if what == "grant" { // over a row that exists
						if err := other.release(other.lead("a", time.Second), backend.Released); err != nil {
							t.Fatal(err)
						}
					}
					trap := proxy.Trap(text, fate)
					call := func(f func(context.Context) ([]backend.Answer, error)) (backend.Answer, error) {
						ctx, cancel := context.WithTimeout(t.Context(), replyTimeout)
						defer cancel()
						before := caught(trap)
						answers, err := f(ctx)
						a := backend.Answer{}
						if len(answers) == 1 {
							a = answers[0]
						}
						if caught(trap) && !before && (a.Outcome != backend.Unknown || err == nil || backend.Class(err) != backend.ErrUnavailable) {
							t.Errorf("%s: %v, %v; want an unknown outcome and an unavailable store", what, a.Outcome, err)
						}
						return a, err
					}
					// Every call is repeated until it has succeeded.
					var lease backend.Lease
					for range 10 {
						seen, err := n.tryObserveSoon("a")
						if err != nil {
							continue
						}
						a, err := call(func(ctx context.Context) ([]backend.Answer, error) {
							return n.Acquire(ctx, []backend.Bid{{Election: "a", Candidate: n.me, TTL: time.Second, Renew: time.Second / 3, Expected: seen}})
						})
						if err == nil && a.Outcome == backend.Granted {
							lease = a.Lease
							break
						}
					}
					if got := other.observe("a"); lease.Term == 0 || !sameLease(got, lease) {
						t.Fatalf("not granted, or the store has another lease: %+v, %+v", lease, got)
					}
					for range 10 {
						a, err := call(func(ctx context.Context) ([]backend.Answer, error) { return n.Renew(ctx, []backend.Held{lease.Held()}) })
						if err == nil && a.Outcome == backend.Granted {
							lease = a.Lease
							break
						}
						if a.Outcome == backend.Refused {
							t.Fatalf("the next renewal was refused after a lost reply: %+v", a)
						}
					}
					if got := other.observe("a"); !sameLease(got, lease) {
						t.Errorf("renewed, but the store has another heartbeat: %+v, %+v", lease, got)
					}
					try := func(f func(context.Context) error) {
						for range 10 {
							ctx, cancel := context.WithTimeout(t.Context(), replyTimeout)
							err := f(ctx)
							cancel()
							if err == nil {
								return
							}
						}
						t.Error("it never succeeded")
					}
					try(func(ctx context.Context) error {
						return n.Announce(ctx, backend.Member{Candidate: n.me, TTL: time.Second})
					})
					request := backend.Request{Election: "a", Term: lease.Term, Kind: backend.Nominate, ID: "x"}
					try(func(ctx context.Context) error { return n.Request(ctx, []backend.Request{request}) })
					if got := other.observe("a"); got.Request != request {
						t.Errorf("the request is %+v, want %+v", got.Request, request)
					}
					lease.End = backend.Released
					try(func(ctx context.Context) error { return n.Release(ctx, []backend.Held{lease.Held()}) })
					if got := other.observe("a"); !got.Vacant() || got.End != backend.Released || got.Term != lease.Term {
						t.Errorf("after the release: %+v", got)
					}
					select {
					case <-trap.Caught():
					default:
						t.Errorf("no statement contains %q; this test does not cover it", text)
					}
				})
			}
		}
	})
}

// Another candidate creates one of two elections between the read and the lock.
func TestALostCommitReplyIsUnknown(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, lose := range []bool{true, false} {
			l := newLab(t, k)
			proxy := l.server.Proxy(t)
			n := openNode(t, "n", Options{Config: proxy.Config(l.User), NotifyConns: -1})
			other := l.node(t, "other")
			var bids []backend.Bid
			for _, name := range []string{"taken", "new"} {
				bids = append(bids, backend.Bid{Election: name, Candidate: n.me, TTL: time.Second, Renew: time.Second / 3, Expected: n.observe(name)})
			}
			hold := proxy.Trap(createLimitSQL, testbed.HoldRequest) // before the two seconds that a creator has
			ctx, cancel := n.ctx()
			defer cancel()
			answered := make(chan []backend.Answer)
			go func() {
				answers, _ := n.Acquire(ctx, bids)
				answered <- answers
			}()
			hold.Wait(t, callLimit)
			other.lead("taken", time.Second)
			if !lose {
				hold.Release()
			} else {
				commit := proxy.Trap("COMMIT", testbed.LoseReply)
				hold.Release()
				commit.Wait(t, callLimit)
				cancel()
			}
			want := []backend.Outcome{backend.Refused, backend.Granted}
			if lose {
				want = []backend.Outcome{backend.Unknown, backend.Unknown}
			}
			for i, a := range <-answered {
				if a.Outcome != want[i] {
					t.Errorf("lost %v: %q: %v, %v; want %v", lose, bids[i].Election, a.Outcome, a.Err, want[i])
				}
				if a.Outcome == backend.Refused && (a.Election != "taken" || a.Holder.ID != "other") {
					t.Errorf("a refusal must show the present lease: %+v", a.Lease)
				}
			}
		}
	})
}

func caught(trap *testbed.Trap) bool {
	select {
	case <-trap.Caught():
		return true
	default:
		return false
	}
}

// tryObserveSoon is tryObserve with replyTimeout.
func (n *node) tryObserveSoon(election string) (backend.Lease, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), replyTimeout)
	defer cancel()
	changed, err := n.Observe(ctx, []backend.Lease{{Election: election}})
	if err != nil {
		return backend.Lease{}, err
	}
	return changed[0], nil
}

func TestALateStatementDoesNothing(t *testing.T) {
	const ttl = time.Second
	type world struct {
		*lab
		n, other *node // n's statements can be delayed
		lease    backend.Lease
	}
	requests := map[string]struct {
		text string
		send func(ctx context.Context, w *world)
		then func(w *world) // what happens before it arrives
	}{
		"a renewal after another grant": {wireText["renew"],
			func(ctx context.Context, w *world) { w.n.Renew(ctx, []backend.Held{w.lease.Held()}) },
			func(w *world) { w.other.lead("a", ttl) }},
		"a renewal after a release": {wireText["renew"],
			func(ctx context.Context, w *world) { w.n.Renew(ctx, []backend.Held{w.lease.Held()}) },
			func(w *world) { w.n.release(w.lease, backend.Released) }},
		"a renewal after an own new grant": {wireText["renew"],
			func(ctx context.Context, w *world) { w.n.Renew(ctx, []backend.Held{w.lease.Held()}) },
			func(w *world) { w.n.lead("a", ttl) }},
		"a release after an own new grant": {wireText["release"],
			func(ctx context.Context, w *world) { w.n.Release(ctx, []backend.Held{w.lease.Held()}) },
			func(w *world) { w.n.lead("a", ttl) }},
		"a release of whatever is held, after an own new grant": {wireText["release"],
			func(ctx context.Context, w *world) { w.n.Release(ctx, []backend.Held{{Election: "a"}}) },
			func(w *world) { w.n.lead("a", ttl) }},
		"a release after another grant": {wireText["release"],
			func(ctx context.Context, w *world) { w.n.Release(ctx, []backend.Held{w.lease.Held()}) },
			func(w *world) { w.other.lead("a", ttl) }},
		"a bid after a renewal": {wireText["grant"],
			func(ctx context.Context, w *world) {
				w.n.Acquire(ctx, []backend.Bid{{Election: "a", Candidate: w.n.me, TTL: ttl, Renew: ttl / 3, Expected: w.lease}})
			},
			func(w *world) { w.n.mustRenew(w.lease) }},
		"a bid after another grant": {wireText["grant"],
			func(ctx context.Context, w *world) {
				w.n.Acquire(ctx, []backend.Bid{{Election: "a", Candidate: w.n.me, TTL: ttl, Renew: ttl / 3, Expected: w.lease}})
			},
			func(w *world) { w.other.lead("a", ttl) }},
		"a first bid after another grant": {"INSERT INTO `election_lease`",
			func(ctx context.Context, w *world) {
				w.n.Acquire(ctx, []backend.Bid{{Election: "a", Candidate: w.n.me, TTL: ttl, Renew: ttl / 3, Expected: w.lease}})
			},
			nil},
	}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for what, r := range requests {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				w := &world{lab: newLab(t, k)}
				proxy := w.server.Proxy(t)
				w.n = openNode(t, "n", Options{Config: proxy.Config(w.User), NotifyConns: -1})
				w.other = w.node(t, "other")
				if w.lease = w.n.observe("a"); r.then != nil {
					w.lease = w.n.lead("a", ttl)
				}
				trap := proxy.Trap(r.text, testbed.HoldRequest)
				ctx, cancel := w.n.ctx()
				defer cancel()
				sent := make(chan struct{})
				go func() { r.send(ctx, w); close(sent) }()
				trap.Wait(t, callLimit)
				cancel()
				<-sent
				if r.then != nil {
					r.then(w)
				} else {
					// The creator whose statement is delayed has locked the table's own
					// row, until the server ends its session.
					testbed.Eventually(t, callLimit, "another candidate is elected", func() error {
						a, err := w.other.bid(w.other.observe("a"), ttl)
						if a.Outcome != backend.Granted {
							return fmt.Errorf("%v, %v, %v", a.Outcome, a.Err, err)
						}
						return nil
					})
				}
				want := w.other.observe("a")
				sessions := w.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND USER = ?", w.Name, w.User.User)
				trap.Release()
				// The late request's session ends once it has been executed.
				testbed.Eventually(t, callLimit, "the late request is executed", func() error {
					now := w.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND USER = ?", w.Name, w.User.User)
					if r.then != nil && now >= sessions {
						return fmt.Errorf("%d sessions, before %d", now, sessions)
					}
					return nil
				})
				if got := w.other.observe("a"); !sameLease(got, want) || got.Holder != want.Holder {
					t.Errorf("it had an effect:\n%+v\n%+v", got, want)
				}
			})
		}
	})
}
