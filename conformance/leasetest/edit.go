package leasetest

import (
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// editedByHand lets somebody else write a record and a session. That shows, and what was read before fits no
// more.
func editedByHand(l *lab) {
	for k, value := range map[lease.Key]func(n uint64) lease.Value{
		key("a"): func(n uint64) lease.Value { return record("a", n) },
		session: func(n uint64) lease.Value {
			return &lease.Session{ID: "x", Nonce: "0123", Heartbeat: lease.Heartbeat(n), At: time.Now().UTC()}
		},
	} {
		first := l.put(backend.Granted, "what is not there", over(none(k), value(1)))[0]
		older := lease.Encode(l.item(k).Value)
		second := l.put(backend.Granted, "a change", over(first, value(2)))[0]
		newest := lease.Encode(l.item(k).Value)
		seen := map[string]bool{first.Version: true, second.Version: true}

		for what, text := range map[string]string{
			"an older text":    older,
			"another text":     strings.Replace(newest, "0123", "4567", 1),
			"what is no value": "\x00\xff",
		} {
			before := l.item(k)
			l.Edit(k, text)
			now := l.item(k)
			l.Want(now.Version != "" && !seen[now.Version] && (now.Value == nil || now.Edited),
				"%s, written by somebody else, is read as %+v; want another version, and Edited", what, now)
			l.put(backend.Refused, "a change over what was there before "+what, over(before, value(3)))

			l.put(backend.Granted, "a change over "+what, over(now, value(4)))
			again := l.item(k)
			l.Want(!again.Edited && again.Value != nil,
				"what was written over %s is read as %+v; want a value that is not Edited", what, again)
			seen[again.Version] = true
		}

		before := l.item(k)
		l.Edit(k, "")
		gone := l.item(k)
		l.Want(gone.Version == "", "what somebody else has deleted is read as %+v", gone)

		l.Edit(k, older)
		now := l.item(k)
		l.Want(!seen[now.Version] && (now.Created != before.Created || now.Edited), "what was deleted "+
			"and made again is read as %+v; want another version, and another Created or Edited", now)
	}
}
