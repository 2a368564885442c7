package curator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/internal/ensemble"
)

// A session has one session of the ensemble at a time: after one has expired, another begins with the next
// call. Only our own calls keep it alive, so that leases expire if a manager is stuck.
type session struct {
	*ensemble.Session
	tick time.Duration

	beingReplaced bool // guarded by Backend.mu: no request may be made that would depend on this session

	mu            sync.Mutex
	lifetime                        // of the present one
	recordOwner   int64             // the session whose session record is known to exist
	recordCzxid   int64             // its czxid
	recordVersion int32             // its version
	record        sessionRecord     // its content
	clockOffset   time.Duration     // how far the servers' clock is ahead of ours
	reported      map[string]string // what Observe last returned on one connection: Versions, by election
	reportedOn    time.Time         // when the request for that connection was sent

	renewing chan struct{} // held while renewing
}

// defaultSession is the session length if no call has needed one: enough for the default
// TTL.
const defaultSession = 16_667 * time.Millisecond

// currentSession returns the session, connected. need is how long it must live without
// contact; 0: any length. A shorter session is replaced if nothing depends on it.
func (b *Backend) currentSession(ctx context.Context, need time.Duration) (*session, error) {
	s, err := b.openSession(ctx, need)
	if err == nil {
		_, err = s.Ready(ctx)
	}
	return s, err
}

func (b *Backend) openSession(ctx context.Context, need time.Duration) (*session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.owner.Admit(""); err != nil {
		return nil, err
	}
	was, length := b.session, min(max(b.expectedSession, need), b.options.MaxSession)
	if was != nil {
		granted := was.Connection().Length
		replace := was.Length < length || granted > 0 && granted < need
		for _, own := range b.locks {
			replace = replace && own.empty()
		}
		if !replace {
			return was, nil
		}
		was.beingReplaced = true
		go was.Close(true)
	}
	if length == 0 {
		length = min(defaultSession, b.options.MaxSession)
	}
	b.session = &session{Session: ensemble.NewSession(&b.access, length), tick: b.options.Tick, renewing: make(chan struct{}, 1)}
	b.session.Quiet = true
	return b.session, nil
}

// withSession calls f with the connected session, and again if the session was replaced
// meanwhile: f must be repeatable.
func (b *Backend) withSession(ctx context.Context, f func(*session) error) error {
	for try := 1; ; try++ {
		s, err := b.currentSession(ctx, 0)
		if err == nil {
			err = f(s)
		}
		if err == nil || ctx.Err() != nil || try == 3 || !b.replaced(s) {
			return err
		}
	}
}

// replaced reports whether there is another session in place of s, or none.
func (b *Backend) replaced(s *session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return s != nil && s != b.session
}

// id returns the id of the present session, or of the last one.
func (s *session) id() int64 { return s.Connection().ID }

// sync brings the server that answers us up to date with the ensemble's leader.
func (s *session) sync(ctx context.Context) error {
	id := s.id()
	sent, err := ensemble.Read(ctx, s.Session, func(c *zk.Conn) (time.Time, error) {
		sent := time.Now()
		_, err := c.Sync("/")
		return sent, err
	})
	if err == nil {
		s.noteAnswer(id, sent, byLeader)
	}
	return err
}

// write makes all writes or none, and notes what the answer proves about the session. failed is the index of
// the first write that could not be made, or -1.
func (s *session) write(ctx context.Context, ops ...any) (results []zk.MultiResponse, failed int, err error) {
	return s.writeAfter(ctx, func() {}, func() {}, ops...)
}

// writeAfter is write that calls begin before it sends the request, and end when the request is
// answered, which may be after writeAfter has returned.
func (s *session) writeAfter(ctx context.Context, begin, end func(), ops ...any) (results []zk.MultiResponse, failed int, err error) {
	client, err := s.Ready(ctx)
	if err != nil {
		return nil, -1, err
	}
	id, sent := s.id(), time.Now()
	begin()
	results, err = ensemble.CallOn(ctx, s.Session, client, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		defer end()
		return c.Multi(ops...)
	})
	if err == nil && len(results) != len(ops) {
		err = fmt.Errorf("%d answers to %d writes", len(results), len(ops))
	}
	if err == nil {
		s.noteAnswer(id, sent, byMajority)
		return results, -1, nil
	}
	if failed, why := ensemble.FailedOp(results); failed >= 0 {
		return nil, failed, why
	}
	return nil, -1, err
}

// recordCzxidOf returns the czxid of the session record of session id, 0 if it is not
// known.
func (s *session) recordCzxidOf(id int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recordOwner != id {
		return 0
	}
	return s.recordCzxid
}

// noteRecordLost notes that the session record of session id is gone.
func (s *session) noteRecordLost(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recordOwner == id {
		s.recordOwner = 0
	}
}

// noteReported notes the Version that was returned of a lease, and on which connection it was read.
func (s *session) noteReported(election, version string, on time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reportedOn != on {
		s.reported, s.reportedOn = make(map[string]string), on
	}
	s.reported[election] = version
}

// wasReported reports whether this was returned last of a lease, and was read on this connection.
func (s *session) wasReported(election, version string, on time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reportedOn == on && s.reported[election] == version
}

// now returns the servers' time as far as it is known.
func (s *session) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.clockOffset)
}

// age returns how long ago something was written, by the servers' clock as far as it is
// known.
func (s *session) age(millis int64) time.Duration {
	return max(s.now().Sub(time.UnixMilli(millis)), 0)
}

// learnClock learns the servers' clock from a write that has just been made.
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
