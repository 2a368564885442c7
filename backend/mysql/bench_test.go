package mysql

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

const manyLeases = 10_000

// manyHeld acquires ten thousand leases for one leader.
func manyHeld(b *testing.B, k testbed.Kind) (*lab, *node, []backend.Lease) {
	b.Helper()
	l := newLab(b, k)
	n := l.node(b, "leader")
	seen := make([]backend.Lease, manyLeases)
	for i := range seen {
		seen[i].Election = fmt.Sprintf("billing/tenant-%05d", i)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	seen, err := n.Observe(ctx, seen)
	if err != nil {
		b.Fatal(err)
	}
	bids := make([]backend.Bid, manyLeases)
	for i := range bids {
		bids[i] = backend.Bid{Election: seen[i].Election, Candidate: n.me, TTL: 10 * time.Second, Renew: 3 * time.Second, Expected: seen[i]}
	}
	answers, err := n.Acquire(ctx, bids)
	return l, n, granted(b, answers, err)
}

func granted(b *testing.B, answers []backend.Answer, err error) []backend.Lease {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	held := make([]backend.Lease, len(answers))
	for i, a := range answers {
		if a.Outcome != backend.Granted {
			b.Fatalf("%+v", a)
		}
		held[i] = a.Lease
	}
	return held
}

// cpu returns the processor time of this process, without the server's.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure reports the processor time of one call in this process, and the share of a core that
// three calls per TTL of 10 s take.
func measure(b *testing.B, call func()) {
	b.Helper()
	b.ReportAllocs()
	began := cpu(b)
	for b.Loop() {
		call()
	}
	each := (cpu(b) - began) / time.Duration(b.N)
	b.ReportMetric(float64(each.Microseconds())/1000, "cpu-ms/op")
	b.ReportMetric(100*each.Seconds()/(10.0/3), "%core@10s")
}

func eachKind(b *testing.B, f func(b *testing.B, k testbed.Kind)) {
	for _, k := range testbed.Kinds {
		b.Run(string(k), func(b *testing.B) { f(b, k) })
	}
}

func BenchmarkRenew10000(b *testing.B) {
	eachKind(b, func(b *testing.B, k testbed.Kind) {
		_, n, held := manyHeld(b, k)
		measure(b, func() {
			answers, err := n.Renew(b.Context(), testbed.Held(held...))
			held = granted(b, answers, err)
		})
	})
}

// A follower reads ten thousand leases that were all renewed.
func BenchmarkObserve10000Renewed(b *testing.B) {
	eachKind(b, func(b *testing.B, k testbed.Kind) {
		l, _, held := manyHeld(b, k)
		follower := l.node(b, "follower")
		seen := held
		for i := range seen {
			seen[i].Version = "x"
		}
		measure(b, func() {
			changed, err := follower.Observe(b.Context(), seen)
			if err != nil || len(changed) != manyLeases {
				b.Fatal(len(changed), err)
			}
		})
	})
}

func BenchmarkObserve10000Unchanged(b *testing.B) {
	eachKind(b, func(b *testing.B, k testbed.Kind) {
		l, _, held := manyHeld(b, k)
		follower := l.node(b, "follower")
		measure(b, func() {
			changed, err := follower.Observe(b.Context(), held)
			if err != nil || len(changed) != 0 {
				b.Fatal(len(changed), err)
			}
		})
	})
}

func BenchmarkOneRenewal(b *testing.B) {
	eachKind(b, func(b *testing.B, k testbed.Kind) {
		n := newLab(b, k).node(b, "n")
		held := []backend.Lease{n.lead("a", 10*time.Second)}
		measure(b, func() {
			answers, err := n.Renew(b.Context(), testbed.Held(held...))
			held = granted(b, answers, err)
		})
	})
}
