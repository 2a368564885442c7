package election

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// maxDelay is the greatest delay of a message.
const maxDelay = 20 * time.Second

// call sends a request over the network, and its answer back.
func (n *simNode) call(c *call) {
	s := n.s
	s.figures.calls++
	n.underWay[c.kind] = simCall{sent: n.local(), ahead: n.ahead}
	if c.timeout > 0 {
		n.underWay[c.kind].limit = s.now + time.Duration(float64(c.timeout)/n.rate) + n.overrun
	}
	n.checkCall(c)
	if c.kind == callHealth {
		switch {
		case n.healthHangs: // it hangs beyond the end of its context
			n.underWay[c.kind].limit += 10 * time.Second
		case n.unhealthy:
			n.endCallLater(c, reply{call: c, err: errUnhealthy})
		default:
			n.endCallLater(c, reply{call: c})
		}
		return
	}
	if s.store.items != nil {
		n.leaseCall(c)
		return
	}
	life, nonce, server := n.life, n.nonce, s.store.primary
	if c.kind == callRelease && slices.ContainsFunc(c.held, func(h backend.Held) bool { return h.Term == 0 }) {
		// Two requests: find what this nonce holds, then release exactly that, if the caller still waits.
		n.send(c, func() {
			found, err := s.store.find(nonce, c.held, server)
			n.sendBack(life, c, func() {
				switch {
				case n.m.inFlight[callRelease] != c: // the caller has given up
				case err != nil || len(found) == 0:
					n.endCall(c, reply{call: c, err: err})
				default:
					n.send(c, func() { n.release(life, c, found, server) })
				}
			})
		})
		return
	}
	n.send(c, func() {
		switch c.kind {
		case callRelease:
			n.release(life, c, pin(c.held), server)
		case callListen:
			s.store.listen(n, life, nonce, c, server)
		default:
			r := s.store.serve(n, life, nonce, c, server)
			n.sendBack(life, c, func() { n.endCall(c, r) })
		}
	})
}

func (n *simNode) release(life int, c *call, held []pinned, server int) {
	r := reply{call: c, err: n.s.store.release(n, life, held, server)}
	n.sendBack(life, c, func() { n.endCall(c, r) })
}

// send carries a request to the store: perhaps late, perhaps never, perhaps twice. It arrives even if
// its sender has crashed or given up.
func (n *simNode) send(c *call, do func()) {
	s := n.s
	if n.cutOff {
		return
	}
	if !s.calm && c.kind != callListen {
		switch s.random.IntN(500) {
		case 0:
			n.count(requestLost)
			return
		case 1:
			n.count(requestTwice)
			s.after(n.delay()+s.upTo(maxDelay/2), do)
		}
	}
	s.after(n.delay(), do)
}

func (n *simNode) sendBack(life int, c *call, do func()) {
	s := n.s
	if n.life != life || !n.up {
		return
	}
	if n.m.inFlight[c.kind] != c && c.kind <= callAcquire {
		n.count(requestLate)
	}
	if n.answersCut || n.cutOff {
		return
	}
	if !s.calm && s.oneIn(500) && c.kind != callListen {
		n.count(answerLost)
		return
	}
	s.after(n.delay(), func() { n.run(life, do) })
}

func (n *simNode) delay() time.Duration {
	d := 200*time.Microsecond + n.s.upTo(3*time.Millisecond)
	if n.slow > 0 {
		d += n.s.upTo(n.slow)
	}
	return min(d, maxDelay)
}

// endCall gives the machine the reply of a call, unless the call has ended already.
func (n *simNode) endCall(c *call, r reply) {
	if c == nil || n.m.inFlight[c.kind] != c {
		return
	}
	n.answered, n.answer = n.underWay[c.kind], r
	n.underWay[c.kind] = simCall{}
	n.noteLeaseEnd(c, &r)
	n.input(r)
	n.answer = reply{}
}

// noteLeaseEnd records when the store ends a lease.
func (n *simNode) noteLeaseEnd(c *call, r *reply) {
	if c.kind != callRenew && c.kind != callAcquire {
		return
	}
	for i, e := range c.elecs {
		if i < len(r.answers) && r.answers[i].Outcome == backend.Granted {
			n.place(e).leaseEnds = n.answered.sent + n.answered.ahead + r.answers[i].ValidFor
		}
	}
}

func (n *simNode) endCallLater(c *call, r reply) {
	life := n.life
	n.s.after(0, func() { n.run(life, func() { n.endCall(c, r) }) })
}

// errGone is the error of a connection to a server that is down or no longer the primary.
var errGone = fmt.Errorf("%w: connection reset", backend.ErrUnavailable)
