package firefly

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A replay is a process that makes the requests of a FireflySoft.LeaderElection member, and decides
// as it does, according to the library's sources. It replaces .NET, which the tests do not
// have. It uses nothing of this module.
type replay struct {
	URL, Service, ID string
	FailoverDelay    time.Duration // ReElectionSilencePeriod: the session's lock-delay
	Confirm          int           // LeaderOfflineConfirmNumber
	Interval         time.Duration // LeaderOfflineConfirmInterval
	CheckTTL         time.Duration // 10 s in the library
	Wait             time.Duration // of the blocking query while a leader is online; 60 s in the library

	leads   atomic.Bool // the last result that the library's callback would get
	session string
	state   fireflyState
	counter int
}

// A fireflyState is the library's LeaderElectionState.
type fireflyState struct {
	leader       string // stays when the leader has gone
	online       bool
	disconnected bool
	index        uint64
}

func (r *replay) check() string { return "CHECK:le:" + r.ID }
func (r *replay) key() string   { return "/v1/kv/leader-election/" + r.Service + "/leader" }

// run takes part until the process ends.
func (r *replay) run() error {
	if err := r.register(); err != nil {
		return err
	}
	say := r.leads.Store
	r.counter = r.Confirm
	say(r.elect())
	for {
		if r.state.online && !r.leads.Load() {
			fmt.Println("waits")
		}
		was := r.state.disconnected
		r.watch()
		mine := r.state.leader == r.ID // as the library does, by the value and not by the session
		switch s := r.state; {
		case was && !s.disconnected && mine && s.online:
			say(true)
		case s.disconnected:
			say(false)
			time.Sleep(100 * time.Millisecond) // the library has no back-off here
		case s.leader == "", !s.online && mine:
			say(r.elect())
		case !s.online && r.counter <= 0:
			success := r.elect()
			if r.state.online {
				r.counter = r.Confirm
			}
			say(success)
		case !s.online:
			r.counter--
		default:
			r.counter = r.Confirm
		}
	}
}

// register makes the service with its check, and keeps the check passing.
func (r *replay) register() error {
	if _, err := r.call("PUT", "/v1/agent/service/deregister/le:"+r.ID, nil, nil); err != nil {
		return err
	}
	service := map[string]any{"ID": "le:" + r.ID, "Name": "le:" + r.Service, "Check": map[string]any{
		"CheckID": r.check(), "Name": r.check(), "TTL": r.CheckTTL.String(), "Status": "warning", "DeregisterCriticalServiceAfter": "1h",
	}}
	if _, err := r.call("PUT", "/v1/agent/service/register", service, nil); err != nil {
		return err
	}
	pass := func() error {
		_, err := r.call("PUT", "/v1/agent/check/pass/"+r.check(), nil, nil)
		return err
	}
	go func() {
		for range time.Tick(r.CheckTTL / 6) {
			pass()
		}
	}()
	return pass()
}

// elect is the library's Elect: it makes a new session and takes the lock if it is free.
func (r *replay) elect() (success bool) {
	if r.session != "" {
		r.call("PUT", "/v1/session/destroy/"+r.session, nil, nil)
		r.session = ""
	}
	var made struct{ ID string }
	_, err := r.call("PUT", "/v1/session/create", map[string]any{
		"Name": "le:" + r.ID, "Checks": []string{r.check(), "serfHealth"}, "LockDelay": r.FailoverDelay.String(),
	}, &made)
	if err == nil {
		r.session = made.ID
		err = r.get("")
	}
	if err == nil && !r.state.online {
		if _, err = r.call("PUT", r.key()+"?acquire="+r.session, r.ID, nil); err == nil {
			err = r.get("")
		}
	}
	if err != nil {
		r.state.disconnected = true
		return false
	}
	return r.state.online && r.state.leader == r.ID
}

// watch is the library's WatchState: a blocking query.
func (r *replay) watch() {
	wait := r.Wait
	if !r.state.online {
		wait = r.Interval
	}
	if err := r.get(fmt.Sprintf("?index=%d&wait=%dms", r.state.index, wait.Milliseconds())); err != nil {
		r.state.disconnected = true
	}
}

// get reads the key.
func (r *replay) get(query string) error {
	var pairs []struct{ Value, Session string }
	answer, err := r.call("GET", r.key()+query, nil, &pairs)
	if err != nil {
		return err
	}
	s := fireflyState{index: r.state.index}
	if n, err := strconv.ParseUint(answer.Get("X-Consul-Index"), 10, 64); err == nil {
		s.index = n
	}
	if len(pairs) > 0 {
		value, _ := base64.StdEncoding.DecodeString(pairs[0].Value)
		s.leader, s.online = string(value), pairs[0].Session != ""
	}
	r.state = s
	return nil
}

// call makes a request. A string is sent as it is, anything else as JSON.
func (r *replay) call(method, path string, send, into any) (http.Header, error) {
	var body []byte
	switch send := send.(type) {
	case nil:
	case string:
		body = []byte(send)
	default:
		body, _ = json.Marshal(send)
	}
	request, err := http.NewRequest(method, r.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode == http.StatusNotFound:
		return answer.Header, nil
	case answer.StatusCode != http.StatusOK:
		return nil, errors.New(answer.Status + ": " + string(text))
	case into != nil:
		err = json.Unmarshal(text, into)
	}
	return answer.Header, err
}

// replayMain is the program of a replay, which cannot resign.
func replayMain(arg string) {
	var r replay
	err := json.Unmarshal([]byte(arg), &r)
	if err == nil {
		go func() {
			fmt.Fprintln(os.Stderr, "replay:", r.run())
			os.Exit(1)
		}()
		testbed.Say(r.leads.Load, func() string { return "" })
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "replay:", err)
	os.Exit(1)
}
