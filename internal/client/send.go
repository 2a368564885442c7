package client

import (
	"context"
	"time"
)

const (
	copies   = 3               // of a message, at most
	lateness = 2 * time.Second // how long after the end of a call a connection may answer; then it is closed
	longest  = time.Minute     // of a call that names no end
)

// Send sends a message on a connection of p, and returns the answer. If the connection breaks, a copy is sent
// on another one, and also after each third of the call's time, since a connection may be dead without
// notice. So a second copy must have no effect.
//
// The end of a call does not end a connection: a server that has no place for another one is often slow, and
// clients that close connections because answers are late keep a busy server busy. The next call uses it.
//
// send sends one copy, and reports whether its connection is broken. Its context outlasts ctx, and ends with
// end. isFinal reports whether another connection would answer the same.
func Send[C, A any](ctx, end context.Context, p *Pool[C],
	send func(ctx context.Context, c C) (answer A, broken bool, err error), isFinal func(error) bool,
) (answer A, err error) {
	type outcome struct {
		answer A
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	by, ok := ctx.Deadline()
	if !ok {
		by = time.Now().Add(longest)
	}
	late := time.Tick(max(1, time.Until(by)/copies))

	outcomes := make(chan outcome, copies)
	sendCopy := func(again bool) {
		var o outcome
		var c *Conn[C]
		if c, o.err = p.Take(ctx, again); o.err == nil {
			broken := false
			if o.err = ctx.Err(); o.err == nil { // or else another copy was answered meanwhile
				within, cancel := context.WithDeadline(end, by.Add(lateness))
				o.answer, broken, o.err = send(within, c.C)
				cancel()
			}
			p.Give(c, broken)
		}
		outcomes <- o
	}
	for sent, ended := 0, 0; ; {
		if sent < copies {
			go sendCopy(sent > 0)
			sent++
		}
		select {
		case o := <-outcomes:
			ended++
			if o.err == nil || isFinal(o.err) || ended == copies && ctx.Err() == nil {
				return o.answer, o.err
			}
		case <-late:
		case <-ctx.Done():
			return answer, context.Cause(ctx)
		}
	}
}
