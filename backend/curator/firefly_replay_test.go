package curator

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/lab/testbed"
)

// A replay makes the requests that a member of FireflySoft.LeaderElection makes, according
// to its sources, and decides as it does. The tests run without .NET, so this stands in for
// it, as a separate process that uses nothing of this module.
type replay struct {
	Server, Root, ID string        // Root is /leader-election/<service>
	Session          time.Duration // sessionTimeout; 10 s there
	Confirm          int           // LeaderOfflineConfirmNumber; 3 there
	Interval         time.Duration // LeaderOfflineConfirmInterval; 10 s there

	conn    *zk.Conn
	cut     atomic.Bool // their _isDisconnected
	leads   atomic.Bool // what their callback last reported
	state   fireflyState
	counter int
}

// A fireflyState is their LeaderElectionState.
type fireflyState struct {
	leader       string // kept after the leader has gone
	online       bool
	disconnected bool
}

func (r *replay) flag() string { return r.Root + "/flag" }

// run takes part until the process ends.
func (r *replay) run() error {
	conn, events, err := zk.Connect([]string{r.Server}, r.Session, zk.WithLogger(noLogger{}), zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	r.conn = conn
	go func() {
		for e := range events {
			switch e.State {
			case zk.StateHasSession:
				r.cut.Store(false)
			case zk.StateDisconnected, zk.StateExpired:
				r.cut.Store(true)
			}
		}
	}()
	// They would create the root and fail: they create it without data, which their client
	// refuses.
	if there, _, err := conn.Exists(r.Root); err != nil || !there {
		return errors.Join(fmt.Errorf("the root %s is there: %v", r.Root, there), err)
	}
	r.counter = r.Confirm
	r.elect()
	for {
		if err := r.watch(); err != nil {
			time.Sleep(3 * time.Second) // as theirs
		}
	}
}

// elect is their Elect: take the flag if it is free, then write the last leader. The
// callback is called.
func (r *replay) elect() {
	s, success, err := r.tryElect()
	if err != nil {
		s, success = fireflyState{disconnected: true}, false
	}
	r.state = s
	r.leads.Store(success)
}

func (r *replay) tryElect() (s fireflyState, success bool, err error) {
	leader, there, err := r.get(r.flag())
	if err != nil || there {
		return fireflyState{leader: leader, online: true}, false, err
	}
	open := zk.WorldACL(zk.PermAll)
	switch _, err := r.conn.Create(r.flag(), []byte(r.ID), zk.FlagEphemeral, open); {
	case err == nil:
		if _, err = r.conn.Create(r.Root+"/leader", []byte(r.ID), 0, open); err == zk.ErrNodeExists {
			_, err = r.conn.Set(r.Root+"/leader", []byte(r.ID), -1)
		}
		return fireflyState{leader: r.ID, online: true}, true, err
	case err != zk.ErrNodeExists:
		return fireflyState{}, false, err
	}
	leader, there, err = r.get(r.flag())
	return fireflyState{leader: leader, online: there}, false, err
}

func (r *replay) get(path string) (text string, there bool, err error) {
	data, _, err := r.conn.Get(path)
	if err == zk.ErrNoNode {
		return "", false, nil
	}
	return string(data), err == nil, err
}

// watch is their WatchState: wait until the flag is deleted, or for the interval if there
// is none.
func (r *replay) watch() error {
	if r.cut.Load() {
		r.process(fireflyState{disconnected: true})
		time.Sleep(100 * time.Millisecond) // theirs has no back-off here
		return nil
	}
	there, _, changed, err := r.conn.ExistsW(r.flag())
	if err != nil {
		return err
	}
	if there && !r.state.disconnected {
		if !r.leads.Load() {
			fmt.Println("waits")
		}
		// Nothing else wakes them, neither the end of the connection nor that of the
		// session.
		if e := <-changed; e.Type != zk.EventNodeDeleted {
			select {}
		}
		return r.offline()
	}
	if !there {
		time.Sleep(r.Interval)
	}
	leader, there, err := r.get(r.flag())
	switch {
	case err != nil:
		return err
	case there:
		r.process(fireflyState{leader: leader, online: true})
		return nil
	}
	return r.offline()
}

func (r *replay) offline() error {
	last, _, err := r.get(r.Root + "/leader")
	if err == nil {
		r.process(fireflyState{leader: last})
	}
	return err
}

// process is their ProcessState.
func (r *replay) process(s fireflyState) {
	was := r.state.disconnected
	r.state = s
	mine := s.leader == r.ID // they compare the data, not the session
	switch {
	case was && mine && s.online:
		r.leads.Store(true)
	case s.disconnected:
		r.leads.Store(false)
	case s.leader == "", !s.online && mine:
		r.elect()
	case !s.online && r.counter == 0:
		if r.elect(); r.state.online {
			r.counter = r.Confirm
		}
	case !s.online:
		r.counter--
	default:
		r.counter = r.Confirm
	}
}

// replayMain is the program of such a process. It cannot resign: when it ends, its session
// expires.
func replayMain(arg string) {
	var r replay
	err := json.Unmarshal([]byte(arg), &r)
	if err == nil {
		failed := make(chan error, 1)
		go func() { failed <- r.run() }()
		go func() { err = <-failed; fmt.Fprintln(os.Stderr, "replay:", err); os.Exit(1) }()
		testbed.Say(r.leads.Load, func() string { return "" })
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "replay:", err)
	os.Exit(1)
}
