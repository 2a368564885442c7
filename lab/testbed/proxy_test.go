package testbed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// through makes a table and a pool that reaches it through a new proxy, by a single
// connection. The second pool is direct, to read what really happened.
func through(t *testing.T, k Kind) (p *Proxy, pool, direct *sql.DB) {
	t.Helper()
	s := Shared(t, k)
	p = s.Proxy(t)
	d := s.Database(t)
	newTable(t, d)
	c := p.Config(d.User)
	c.InterpolateParams = true // one request for each statement, with its text
	pool = OpenDB(t, c)
	pool.SetMaxOpenConns(1)
	mustAsk[int](t, pool, "SELECT 1")
	return p, pool, OpenDB(t, d.Admin)
}

func hasRow(t *testing.T, db *sql.DB, n int) bool {
	t.Helper()
	return mustAsk[int](t, db, "SELECT COUNT(*) FROM notes WHERE n = ?", n) == 1
}

// unanswered starts to write a row. When underWay returns and the write stays unanswered
// for a while, it cancels the write.
func unanswered(t *testing.T, pool *sql.DB, n int, underWay func()) {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	result := make(chan error, 1)
	go func() {
		_, err := pool.ExecContext(ctx, "INSERT INTO notes VALUES (?)", n)
		result <- err
	}()
	underWay()
	select {
	case err := <-result:
		t.Errorf("write %d was answered: %v", n, err)
		return
	case <-time.After(impatient):
	}
	hangUp()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("write %d: %v, want a wait until it is cancelled", n, err)
	}
}

// arrives waits until the request that adds a row has reached the proxy.
func arrives(t *testing.T, p *Proxy, n int) (underWay func()) {
	trap := p.Trap(fmt.Sprintf("VALUES (%d)", n), HoldRequest)
	trap.Release() // the request is not held
	return func() { trap.Wait(t, patience) }
}

func TestCutLosesDataAndNewConnectionsHang(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		p, pool, direct := through(t, k)
		p.Cut(true)
		unanswered(t, pool, 0, arrives(t, p, 0)) // on the open connection, then on a new one
		unanswered(t, pool, 1, func() {
			// The server does not know that the client has closed the first one.
			Eventually(t, patience, "two open connections", func() error {
				if open := p.Open(); open != 2 {
					return fmt.Errorf("there are %d", open)
				}
				return nil
			})
		})
		p.Cut(false)
		mustAsk[int](t, pool, "SELECT 1")
		for n := range 2 {
			if hasRow(t, direct, n) {
				t.Errorf("write %d arrived through the cut", n)
			}
		}
		Eventually(t, patience, "dead connections end when the cut is healed", func() error {
			if open := p.Open(); open != 1 {
				return errors.New("still open")
			}
			return nil
		})
	})
}

func TestCutRepliesExecutesAndDoesNotAnswer(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		p, pool, direct := through(t, k)
		p.CutReplies(true)
		unanswered(t, pool, 1, func() {
			Eventually(t, patience, "the write is executed", func() error {
				if !hasRow(t, direct, 1) {
					return errors.New("no row")
				}
				return nil
			})
		})
		p.CutReplies(false)
		if err := write(pool, patience, 2); err != nil {
			t.Error(err)
		}
	})
}

func TestCutRequestsExecutesNothing(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		p, pool, direct := through(t, k)
		p.CutRequests(true)
		unanswered(t, pool, 1, arrives(t, p, 1))
		p.CutRequests(false)
		if err := write(pool, patience, 2); err != nil {
			t.Error(err)
		}
		if hasRow(t, direct, 1) {
			t.Error("the write was executed")
		}
	})
}

func TestHoldDeliversLate(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		p, pool, direct := through(t, k)
		p.Hold(true)
		unanswered(t, pool, 1, arrives(t, p, 1))
		if hasRow(t, direct, 1) {
			t.Error("the write was executed while it was held")
		}
		p.Hold(false)
		Eventually(t, patience, "the held write arrives, long after its client cancelled it", func() error {
			if !hasRow(t, direct, 1) {
				return errors.New("no row")
			}
			return nil
		})
	})
}

func TestTraps(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		p, pool, direct := through(t, k)

		trap := p.Trap("INSERT INTO notes VALUES (1)", LoseReply)
		unanswered(t, pool, 1, func() {
			trap.Wait(t, patience)
			Eventually(t, patience, "a request that loses its reply is executed", func() error {
				if !hasRow(t, direct, 1) {
					return errors.New("no row")
				}
				return nil
			})
		})

		trap = p.Trap("VALUES (2)", LoseRequest)
		unanswered(t, pool, 2, func() { trap.Wait(t, patience) })
		if hasRow(t, direct, 2) {
			t.Error("a lost request was executed")
		}

		trap = p.Trap("VALUES (3)", HoldRequest)
		result := make(chan error)
		go func() { result <- write(pool, patience, 3) }()
		trap.Wait(t, patience)
		if hasRow(t, direct, 3) {
			t.Error("held request: executed before its release")
		}
		trap.Release()
		if err := <-result; err != nil || !hasRow(t, direct, 3) {
			t.Errorf("held request after its release: %v, executed %v", err, hasRow(t, direct, 3))
		}

		// Each trap caught one request. Others are forwarded.
		if err := write(pool, patience, 4); err != nil {
			t.Error(err)
		}
	})
}

func TestDelayMakesEveryAnswerLate(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		p, pool, _ := through(t, k)
		const d = 60 * time.Millisecond
		p.Delay(d)
		began := time.Now()
		mustAsk[int](t, pool, "SELECT 1")
		if took := time.Since(began); took < 2*d {
			t.Errorf("an answer after %v, want %v at least", took, 2*d)
		}
	})
}

func TestResetBreaksOpenConnections(t *testing.T) {
	Each(t, func(t *testing.T, k Kind) {
		p, pool, _ := through(t, k)
		trap := p.Trap("SLEEP", HoldRequest)
		trap.Release()
		result := make(chan error)
		go func() {
			_, err := ask[int](pool, 3*patience, "SELECT SLEEP(600)")
			result <- err
		}()
		trap.Wait(t, patience)
		began := time.Now()
		p.Reset()
		if err := <-result; err == nil || timedOut(err) || time.Since(began) > patience {
			t.Errorf("after a reset: %v, %v later; want an error at once", err, time.Since(began))
		}
		mustAsk[int](t, pool, "SELECT 1")
	})
}

func TestSetTargetMovesNewConnections(t *testing.T) {
	p := NewProxy(t, echo(t, "one "))
	first := dial(t, p)
	if got := say(t, first, "a"); got != "one a" {
		t.Errorf("answer %q, want %q", got, "one a")
	}
	p.SetTarget(echo(t, "two "))
	if got := say(t, first, "b"); got != "one b" {
		t.Errorf("answer of the old connection %q, want %q", got, "one b")
	}
	if got := say(t, dial(t, p), "c"); got != "two c" {
		t.Errorf("answer of a new connection %q, want %q", got, "two c")
	}
	p.SetTarget("127.0.0.1:1")
	c, err := net.Dial("tcp", p.Addr()) // the reset may come before Dial returns
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("with no server at the target: %v, want a reset", err)
	}
}

func TestProxyLeavesNothingRunning(t *testing.T) {
	addr := echo(t, "")
	before := runtime.NumGoroutine()
	p := NewProxy(t, addr)
	var conns []net.Conn
	for i := range 8 {
		c := dial(t, p)
		say(t, c, "hello")
		conns = append(conns, c)
		switch i {
		case 3:
			p.Delay(time.Hour)
			io.WriteString(c, "late")
		case 5:
			p.Delay(0)
			p.Trap("held", HoldRequest)
			io.WriteString(c, "held")
		}
		if i == 3 {
			p.Delay(0)
		}
	}
	p.Cut(true)
	for _, c := range conns {
		io.WriteString(c, "lost")
	}
	conns = append(conns, dial(t, p))
	conns[0].Close()
	p.Close()
	for _, c := range conns {
		c.Close()
	}
	Eventually(t, patience, "all goroutines end", func() error {
		if n := runtime.NumGoroutine(); n > before {
			return errors.New("some are left")
		}
		return nil
	})
}

// echo serves connections and returns every piece with a prefix.
func echo(t *testing.T, prefix string) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 100)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					io.WriteString(c, prefix+string(buf[:n]))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// say sends a piece and returns the reply.
func say(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}
