package testbed

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// impatient is how long a test waits before it concludes that something stays unanswered.
const impatient = 300 * time.Millisecond

// through is a proxy before an echo, and a connection that is used. got is what the echo has received.
func through(t *testing.T) (p *Proxy, c net.Conn, got chan string) {
	t.Helper()
	addr, got := echo(t, "")
	p = NewProxy(t, addr)
	c = dial(t, p)
	say(t, c, "hello")
	next(t, got)
	return p, c, got
}

// unanswered sends a piece, to which there is no answer. It reports whether the piece has arrived.
func unanswered(t *testing.T, c net.Conn, got chan string, text string) (arrived bool) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(impatient))
	if _, err := c.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s was answered: %v", text, err)
	}
	select {
	case <-got:
		return true
	default:
		return false
	}
}

func TestACutLosesData(t *testing.T) {
	for what, test := range map[string]struct {
		cut     func(p *Proxy, on bool)
		arrives bool
	}{
		"both ways": {(*Proxy).Cut, false},
		"requests":  {(*Proxy).CutRequests, false},
		"replies":   {(*Proxy).CutReplies, true},
	} {
		t.Run(what, func(t *testing.T) {
			p, c, got := through(t)
			test.cut(p, true)
			if arrived := unanswered(t, c, got, "lost"); arrived != test.arrives {
				t.Errorf("a request has arrived: %v, want %v", arrived, test.arrives)
			}
			test.cut(p, false)
			unanswered(t, c, got, "lost, too") // bytes are missing before
			say(t, dial(t, p), "again")
		})
	}
}

func TestNewConnectionsHangInACut(t *testing.T) {
	p, _, got := through(t)
	p.Cut(true)
	c := dial(t, p)
	if unanswered(t, c, got, "late") {
		t.Error("a request of a new connection has arrived through a cut")
	}
	p.Cut(false)
	if text := next(t, got); text != "late" {
		t.Errorf("after the cut, %q has arrived", text)
	}
}

func TestHoldDeliversLate(t *testing.T) {
	p, c, got := through(t)
	p.Hold(true)
	if unanswered(t, c, got, "late") {
		t.Error("a request has arrived while it was held")
	}
	c.Close()
	p.Hold(false)
	if text := next(t, got); text != "late" {
		t.Errorf("%q has arrived, want what its client has given up", text)
	}
}

// Each trap catches one request. Others are forwarded.
func TestTraps(t *testing.T) {
	p, c, got := through(t)
	trap := p.Trap("one", LoseReply)
	if !unanswered(t, c, got, "request one") {
		t.Error("a request whose reply is lost has not arrived")
	}
	trap.Wait(t, patience)

	trap, c = p.Trap("two", LoseRequest), dial(t, p)
	if unanswered(t, c, got, "request two") {
		t.Error("a lost request has arrived")
	}
	trap.Wait(t, patience)

	trap, c = p.Trap("three", HoldRequest), dial(t, p)
	if unanswered(t, c, got, "request three") {
		t.Error("a held request has arrived before its release")
	}
	trap.Wait(t, patience)
	trap.Release()
	if text := next(t, got); text != "request three" {
		t.Errorf("after the release, %q has arrived", text)
	}
	say(t, dial(t, p), "request three again")
}

func TestDelayMakesEveryAnswerLate(t *testing.T) {
	p, c, _ := through(t)
	const d = 60 * time.Millisecond
	p.Delay(d)
	began := time.Now()
	say(t, c, "a")
	if took := time.Since(began); took < 2*d {
		t.Errorf("an answer after %v, want %v at least", took, 2*d)
	}
}

func TestResetBreaksOpenConnections(t *testing.T) {
	p, c, _ := through(t)
	p.Reset()
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
	say(t, dial(t, p), "again")
}

func TestSetTargetMovesNewConnections(t *testing.T) {
	p, first, _ := through(t)
	two, _ := echo(t, "two ")
	p.SetTarget(two)
	if got := say(t, first, "b"); got != "b" {
		t.Errorf("answer of the old connection %q, want %q", got, "b")
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
	addr, _ := echo(t, "")
	before := runtime.NumGoroutine()
	p := NewProxy(t, addr)
	for _, fault := range []func(){
		func() {},
		func() { p.Delay(time.Hour) },
		func() { p.Delay(0); p.Trap("held", HoldRequest) },
		func() { p.Hold(true) },
		func() { p.Hold(false); p.Cut(true) },
	} {
		c := dial(t, p)
		fault()
		io.WriteString(c, "held")
		defer c.Close()
	}
	p.Close()
	Eventually(t, patience, "all goroutines end", func() error {
		if n := runtime.NumGoroutine(); n > before+5 { // those of the echo see their connections end later
			return errors.New("some are left")
		}
		return nil
	})
}

// echo serves connections. It returns each piece with a prefix.
func echo(t *testing.T, prefix string) (addr string, got chan string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	NoError(t, err)
	t.Cleanup(func() { l.Close() })
	got = make(chan string, 100)
	serve := func(c net.Conn) {
		defer c.Close()
		buf := make([]byte, 100)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			got <- string(buf[:n])
			io.WriteString(c, prefix+string(buf[:n]))
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String(), got
}

// next returns what an echo receives next.
func next(t *testing.T, got chan string) (text string) {
	t.Helper()
	select {
	case text = <-got:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing arrives")
	}
	return text
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", p.Addr(), patience)
	NoError(t, err)
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
	NoError(t, err)
	return string(buf[:n])
}
