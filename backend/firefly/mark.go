package firefly

import (
	"context"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/consulagent"
)

// sealNode is the node of the catalog on which the seals' sessions are made.
const sealNode = "go-election-seal"

// Mark implements [backend.Backend]. It renews the session. Then it makes one transaction for each
// lease, which requires that the keys are as they were read. With MovedTo the lock passes to the
// seal; without it the lock returns. See docs/design/firefly.md, "Moving to another store".
func (f *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	what := describe("mark", len(held), held[0].Election)
	if err := f.enter(ctx, what, held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(held))
	session, err := f.renewSession(ctx)
	if err != nil {
		return answers, f.agent.Wrap(what, err)
	}
	for i, l := range held {
		if answers[i], err = f.writeMarks(ctx, session, l); err != nil {
			return answers, f.agent.Wrap(what, err)
		}
	}
	return answers, nil
}

func (f *Backend) writeMarks(ctx context.Context, session string, l backend.Held) (backend.Answer, error) {
	for range maxAttempts {
		locks, err := f.read(ctx, []string{l.Election})
		if err != nil {
			return backend.Answer{}, err
		}
		s := locks[0]
		if a := s.answerRenewal(session, l); a.Outcome != backend.Granted {
			return a, nil
		}
		next := s.own
		next.Heartbeat, next.MovedTo, next.Moved = lease.NewHeartbeat(), l.MovedTo, l.MovedFrom
		keeper := s.session // the session that has the lock afterwards
		switch {
		case l.MovedTo != "" && !s.sealed:
			if keeper, err = f.newSeal(ctx); err != nil {
				return backend.Answer{}, err
			}
			next.Seal = keeper
		case l.MovedTo == "":
			keeper, next.Seal = session, ""
		}
		key, own := f.lock(s.name), f.record(s.name)
		ops := api.KVTxnOps{pin(key, s.lockPair), pin(own, s.ownPair)}
		if keeper != s.session {
			ops = append(ops, transferOps(key, s.session, keeper, s.lockPair.Value)...)
		}
		ops = append(ops, transferOps(own, session, session, encode(next))...)
		ok, answer, err := f.agent.Txn(ctx, ops)
		if err != nil {
			return backend.Answer{}, err // an unused seal holds nothing
		}
		if !ok {
			if keeper != s.session && keeper != session {
				f.unseal(ctx, keeper)
			}
			if err := consulagent.Refusal(answer); backend.Class(f.agent.Wrap("", err)) == backend.ErrDenied {
				return backend.Answer{}, err
			}
			continue
		}
		if s.sealed && keeper == session {
			f.unseal(ctx, s.own.Seal)
		}
		moved := *s
		index := lastIndex(answer.Results)
		moved.own, moved.session = next, keeper
		moved.lockPair = &api.KVPair{ModifyIndex: s.lockPair.ModifyIndex, Session: keeper, Value: s.lockPair.Value}
		if keeper != s.session {
			moved.lockPair.ModifyIndex = index
		}
		f.markHeld(s.name, heldLock{next.Term, moved.lockPair.ModifyIndex})
		f.classify(&moved)
		return moved.answerRenewal(session, l), nil
	}
	return backend.Answer{}, consulagent.ErrConflict
}

// newSeal makes a session that Consul does not end.
func (f *Backend) newSeal(ctx context.Context) (string, error) {
	node := &api.CatalogRegistration{
		Node: sealNode, Address: "192.0.2.1", // reserved for documentation (RFC 5737)
		NodeMeta: map[string]string{"external-node": "true"}, Partition: f.agent.Partition,
	}
	if _, err := f.agent.Client.Catalog().Register(node, write(ctx)); err != nil {
		return "", err
	}
	entry := &api.SessionEntry{Name: "le: moved to another store", Node: sealNode, Behavior: api.SessionBehaviorRelease, LockDelay: f.fleet.FailoverDelay}
	id, _, err := f.agent.Client.Session().CreateNoChecks(entry, write(ctx))
	return id, err
}

// unseal destroys the session of a seal that no longer holds a lock. One that is left over does
// no harm.
func (f *Backend) unseal(ctx context.Context, seal string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	f.agent.Client.Session().Destroy(seal, write(ctx))
}
