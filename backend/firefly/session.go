package firefly

import (
	"context"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// ensureSession renews the session, or makes one if there is none.
func (f *Backend) ensureSession(ctx context.Context, candidate backend.Candidate) (string, error) {
	select {
	case f.sessionMutex <- struct{}{}:
		defer func() { <-f.sessionMutex }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	f.setCandidate(candidate.ID)
	if id, err := f.renewSession(ctx); err != nil || id != "" {
		return id, err
	}
	id, err := f.agent.CreateSession(ctx, &api.SessionEntry{
		Name: "le:" + candidate.ID, Behavior: api.SessionBehaviorRelease, TTL: f.fleet.SessionTTL.String(), LockDelay: f.fleet.FailoverDelay,
	})
	if err == nil {
		f.mu.Lock()
		f.session = id
		f.mu.Unlock()
	}
	return id, err
}

// renewSession renews the session and returns its id, or "" if it has ended.
func (f *Backend) renewSession(ctx context.Context) (string, error) {
	id := f.currentSession()
	if id == "" {
		return "", nil
	}
	ended, err := f.agent.RenewSession(ctx, id)
	if ended {
		f.forgetSession(id)
	}
	return f.currentSession(), err
}

func (f *Backend) currentSession() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session
}

// forgetSession forgets a session that has ended. Its leases are lost.
func (f *Backend) forgetSession(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == id {
		f.session = ""
	}
}

// sessionEnded reports whether a transaction failed because the session has ended.
func sessionEnded(answer *api.KVTxnResponse) bool {
	for _, e := range answer.Errors {
		if strings.HasPrefix(e.What, "invalid session ") {
			return true
		}
	}
	return false
}
