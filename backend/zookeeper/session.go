package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// A session is one connection of the client library, with all sessions that it
// opens: after an expiry it opens another by itself.
type session struct {
	b               *Backend
	conn            *zk.Conn
	requestedLength time.Duration
	ctx             context.Context // of its dialling
	cancel          context.CancelFunc

	beingReplaced bool // guarded by b.mu: it is being replaced, and nothing may be asked for that would hang on it

	mu            sync.Mutex
	id            int64         // as the server said last
	grantedLength time.Duration // how long it lives unheard, as the server said
	epoch         int           // grows when a connection is made or lost
	lastContact   time.Time     // the ensemble's leader is known to have heard of the session since then
	connectSent   time.Time     // when the request was sent that a server has greeted us for last
	exchanges     []exchange    // oldest first, not before touched
	syncsSent     int           // sent so far
	connection    *connection   // present, or last
	muted         bool          // nothing is sent any more: as if the process had died
	lastUsed      time.Time     // when a request was made last
	waiting       int           // requests that wait for a connection
	lastErr       error         // why the last attempt to connect failed
	changed       chan struct{} // closed and replaced when any of it changes
	recordOwner   int64         // the session whose own node is known to be there
	recordCzxid   int64         // its czxid
	recordVersion int32         // and its version
	record        sessionRecord // what it says
	clockOffset   time.Duration // how much the servers' clock is ahead of ours

	watchedPaths map[string]int // paths whose readings are to leave a watch
	renewing     chan struct{}  // taken by who renews

	authenticated chan struct{} // closed when the user is known to the server
	servers       *serverList
	cache         cache
}

// guess is how long a session is as long as nobody has told: what the default TTL needs.
const defaultSession = 16_667 * time.Millisecond

// current returns the session, connected. need is how long it must live unheard;
// 0: any. A session that is shorter is replaced if nothing hangs on it.
func (b *Backend) currentSession(ctx context.Context, need time.Duration) (*session, error) {
	select {
	case b.opening <- struct{}{}:
		defer func() { <-b.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b.mu.Lock()
	s, closed, replace := b.session, b.owner.Admit(""), false
	expected := min(max(b.expectedSession, need), b.options.MaxSession)
	if s != nil {
		replace = s.requestedLength < expected || s.tooShort(need)
		for _, own := range b.locks {
			replace = replace && own.empty()
		}
		s.beingReplaced = replace
	}
	b.mu.Unlock()
	if closed != nil {
		return nil, closed
	}
	if s == nil || replace {
		if expected == 0 {
			expected = min(defaultSession, b.options.MaxSession)
		}
		fresh, err := b.openSession(expected)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		if closed = b.owner.Admit(""); closed == nil {
			b.session = fresh
		}
		b.mu.Unlock()
		if closed != nil {
			fresh.close(false)
			return nil, closed
		}
		if s != nil {
			s.close(false)
		}
		s = fresh
	}
	return s, s.ready(ctx)
}

// short reports whether the servers have granted less than is needed.
func (s *session) tooShort(need time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grantedLength > 0 && s.grantedLength < need
}

// with calls f with the session, connected, and again if that was replaced by
// one of another length meanwhile: what f does can be done twice.
func (b *Backend) withSession(ctx context.Context, f func(*session) error) error {
	for try := 1; ; try++ {
		s, err := b.currentSession(ctx, 0)
		if err == nil {
			err = f(s)
		}
		if err == nil || s == nil || s.ctx.Err() == nil || ctx.Err() != nil || try == 3 {
			return err
		}
	}
}

// connect begins a session. The library connects on its own goroutine.
func (b *Backend) openSession(length time.Duration) (*session, error) {
	s := &session{b: b, requestedLength: length, lastUsed: time.Now(), changed: make(chan struct{}), authenticated: make(chan struct{}), watchedPaths: map[string]int{}, renewing: make(chan struct{}, 1), servers: &serverList{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.cache.init(s)
	conn, _, err := zk.Connect(b.options.Servers, length,
		zk.WithDialer(s.dial), zk.WithHostProvider(s.servers), zk.WithEventCallback(s.event),
		zk.WithLogger(noLogger{}), zk.WithLogInfo(false),
		zk.WithMaxBufferSize(maxReply), zk.WithMaxConnBufferSize(maxRequest))
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	if b.options.User == "" {
		return s, nil
	}
	// It is the first request, and is repeated by the library at each connection.
	b.late.Go(func() {
		for {
			err := conn.AddAuth("digest", []byte(b.options.User+":"+b.options.Password))
			if err == nil || s.ctx.Err() != nil {
				s.change(func() { s.lastErr = nil })
				close(s.authenticated)
				return
			}
			if errors.Is(err, zk.ErrAuthFailed) { // else the dialler knows better
				s.change(func() { s.lastErr = err })
			}
		}
	})
	return s, nil
}

// maxReply bounds what a server may make us read at once: the names of some
// hundred thousand children.
const maxReply = 32 << 20

// maxRequest is the library's buffer for what it sends: a transaction of ours is half of
// that at most, besides the session's node, which has some bytes a group of grants.
const maxRequest = 2 * maxMulti

// silent drops what the library logs: all that matters comes back as an error.
type noLogger struct{}

func (noLogger) Printf(string, ...any) {}

// change changes fields of s and wakes who waits for that.
func (s *session) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// event is called by the library, on its own goroutine, with everything that
// happens, before any later answer is handed on.
func (s *session) event(e zk.Event) {
	if e.Type == zk.EventSession {
		s.change(func() {
			if e.State == zk.StateDisconnected {
				s.epoch++
			}
		})
		s.cache.wakeAll()
		return
	}
	s.cache.fire(e)
}

// homeOf returns the czxid of session id's own node, 0 if it is not known.
func (s *session) recordCzxidOf(id int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recordOwner != id {
		return 0
	}
	return s.recordCzxid
}

// heardSince reports whether the servers have answered what was sent under this session
// since t.
func (s *session) answeredSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.exchanges)
	return n > 0 && s.exchanges[n-1].sent.After(t)
}

// homeless notes that session id's own node is gone.
func (s *session) noteRecordLost(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recordOwner == id {
		s.recordOwner = 0
	}
}

// ready waits until there is a connection with a session.
func (s *session) ready(ctx context.Context) error {
	s.mu.Lock()
	s.lastUsed = time.Now()
	connected := s.conn.State() == zk.StateHasSession
	s.mu.Unlock()
	if !connected {
		s.change(func() { s.waiting++ })
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.waiting--
		}()
	}
	err := s.wait(ctx, func() bool { return s.conn.State() == zk.StateHasSession })
	if err != nil || s.b.options.User == "" {
		return err
	}
	select {
	case <-s.authenticated:
		return nil
	case <-ctx.Done():
		return s.explain(ctx.Err())
	}
}

// wait waits until ok, which is called with s.mu held.
func (s *session) wait(ctx context.Context, ok func() bool) error {
	for {
		s.mu.Lock()
		done, changed := ok(), s.changed
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return errSessionClosed
		case <-ctx.Done():
			return s.explain(ctx.Err())
		}
	}
}

var errSessionClosed = fmt.Errorf("%w: the session was closed", backend.ErrUnavailable)

// why adds to the end of a context why there is no connection, if that is known.
func (s *session) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastErr == nil {
		return fmt.Errorf("no answer from the servers: %w", err)
	}
	if isTLS(s.lastErr) || errors.Is(s.lastErr, zk.ErrAuthFailed) {
		return fmt.Errorf("%w: not connected: %w", backend.ErrDenied, s.lastErr)
	}
	return fmt.Errorf("not connected: %w (%w)", err, s.lastErr)
}

// now returns the servers' time, as well as it is known, and the session's id.
func (s *session) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.clockOffset)
}

// at learns the servers' clock from the time of a write that has just been made.
func (s *session) learnClock(stat *zk.Stat) {
	if stat == nil || stat.Mtime == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if skew := time.Until(time.UnixMilli(stat.Mtime)); skew.Abs() < 100*365*24*time.Hour {
		s.clockOffset = skew
	}
}

// present returns the session's id and its epoch.
func (s *session) idAndEpoch() (id int64, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.epoch
}

// close ends the connection, and the session with it, or leaves the session to
// run out, as the death of the process would.
func (s *session) close(leave bool) {
	if leave {
		s.mute()
	}
	s.cancel()
	s.conn.Close()
	s.mu.Lock()
	l := s.connection
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
}

// silence ends sending without a word.
func (s *session) mute() {
	s.mu.Lock()
	s.muted = true
	l := s.connection
	s.mu.Unlock()
	if l != nil {
		l.Conn.Close()
	}
}

// age is how long ago something was written, by the servers' clock as far as it
// is known.
func (s *session) age(millis int64) time.Duration {
	return max(s.now().Sub(time.UnixMilli(millis)), 0)
}
