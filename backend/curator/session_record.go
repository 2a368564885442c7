package curator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// A sessionRecord is the content of a session's own node: which of its grants were renewed,
// in groups that were renewed together. One number renews a whole group, which keeps the
// node small. A grant in no group was not renewed yet.
type sessionRecord struct {
	Nonce  string         `json:"nonce"`
	ID     string         `json:"id"`
	Most   duration       `json:"most_ttl,omitempty"` // the greatest TTL of any renewal so far
	Groups []renewalGroup `json:"renewed,omitempty"`
}

type renewalGroup struct {
	Heartbeat uint64   `json:"heartbeat,string"`
	TTL       duration `json:"ttl"`
	Renew     duration `json:"renew"`
	Grants    [][2]int `json:"grants"` // from, to
}

const maxSessionRecord = 1 << 20

// parseSessionRecord reads a session record. Anything else counts as an empty one.
func parseSessionRecord(data []byte) *sessionRecord {
	var rec sessionRecord
	if len(data) > maxSessionRecord || json.Unmarshal(data, &rec) != nil {
		return &sessionRecord{}
	}
	return &rec
}

func (rec *sessionRecord) encode() []byte {
	data, err := json.Marshal(rec)
	if err != nil {
		panic("curator: a session record cannot be written as JSON: " + err.Error()) // strings and numbers only
	}
	return data
}

// groupOf returns the group of a grant, or nil.
func (rec *sessionRecord) groupOf(grant int) *renewalGroup {
	for i := range rec.Groups {
		for _, r := range rec.Groups[i].Grants {
			if grant >= r[0] && grant <= r[1] {
				return &rec.Groups[i]
			}
		}
	}
	return nil
}

// leaseHeartbeat returns the heartbeat of a lease that was granted with the heartbeat first
// under the session record with this czxid. g is the group of its last renewal, or nil. A
// heartbeat never comes back: first and g's heartbeat are random, and a session record that
// is created again, after which the holder has no groups, has another czxid.
func (g *renewalGroup) leaseHeartbeat(first uint64, czxid int64, election string) uint64 {
	last := uint64(0)
	if g != nil {
		last = g.Heartbeat
	}
	return mix(first, fmt.Sprintf("%x %x %s", czxid, last, election))
}

// withRenewal returns the record with the grants in now renewed. held are all grants that
// are still held, in any order: a range may contain numbers of others, which nobody looks
// up.
func (rec *sessionRecord) withRenewal(heartbeat uint64, ttl, renew time.Duration, now, held []int) *sessionRecord {
	in := map[int]int{} // group of each held grant
	for _, g := range held {
		in[g] = -1
		for i := range rec.Groups {
			for _, r := range rec.Groups[i].Grants {
				if g >= r[0] && g <= r[1] {
					in[g] = i
				}
			}
		}
	}
	groups := slices.Clone(rec.Groups)
	groups = append(groups, renewalGroup{Heartbeat: heartbeat, TTL: duration(ttl), Renew: duration(renew)})
	for i := range groups {
		groups[i].Grants = nil
	}
	for _, g := range now {
		in[g] = len(groups) - 1
	}
	var all []int
	for g := range in {
		all = append(all, g)
	}
	slices.Sort(all)
	last := -1 // group of the previous grant
	for _, g := range all {
		at := in[g]
		switch {
		case at < 0:
		case at == last:
			r := groups[at].Grants
			r[len(r)-1][1] = g
		default:
			groups[at].Grants = append(groups[at].Grants, [2]int{g, g})
		}
		last = at
	}
	next := &sessionRecord{Nonce: rec.Nonce, ID: rec.ID, Most: max(rec.Most, duration(ttl))}
	for _, g := range groups {
		if len(g.Grants) > 0 {
			next.Groups = append(next.Groups, g)
		}
	}
	return next
}

// restoreSessionRecord creates the present session's record again after it was found
// missing. Nothing of another session id is left, or the ensemble will delete it.
func (b *Backend) restoreSessionRecord(ctx context.Context, s *session, id int64) error {
	if s.id() != id {
		return errSessionEnded
	}
	s.noteRecordLost(id)
	s.mu.Lock()
	who := backend.Candidate{Nonce: backend.Nonce(s.record.Nonce), ID: s.record.ID}
	s.mu.Unlock()
	_, err := b.prepareSession(ctx, s, who)
	return err
}

// prepareSession creates what the session needs: our parent nodes, the session record, and
// the member record as last announced.
func (b *Backend) prepareSession(ctx context.Context, s *session, who backend.Candidate) (id int64, err error) {
	id = s.id()
	s.mu.Lock()
	ready := s.recordOwner == id
	s.mu.Unlock()
	if ready {
		return id, nil
	}
	first := sessionRecord{Nonce: string(who.Nonce), ID: who.ID}
	path := b.layout.sessionPath(sessionName(id))
	for try := 0; ; try++ {
		_, err = ensemble.Call(ctx, s.Session, func(c *zk.Conn) (string, error) {
			return c.Create(path, first.encode(), zk.FlagEphemeral, b.access.ACL)
		})
		if !errors.Is(err, zk.ErrNoNode) || try > 0 {
			break
		}
		for _, parent := range []string{b.layout.recordParent, b.layout.memberParent, b.layout.sessionParent} {
			if err := b.createParents(ctx, s, parent+"/x", false); err != nil {
				return 0, err
			}
		}
	}
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return 0, err
	}
	r, err := s.ReadNode(ctx, ensemble.Unique, path)
	if err != nil {
		return 0, err
	}
	if !r.Missing && r.Stat.EphemeralOwner != id { // created by an operator: this name is ours alone
		if _, _, err := s.write(ctx, &zk.DeleteRequest{Path: path, Version: r.Stat.Version}); err != nil {
			return 0, err
		}
	}
	if r.Missing || r.Stat.EphemeralOwner != id {
		return 0, errSessionEnded // or it must be read again
	}
	if s.id() != id {
		return 0, errSessionEnded
	}
	s.learnClock(&r.Stat)
	s.mu.Lock()
	if s.recordOwner != id { // otherwise another call was faster, and a renewal may have written since
		s.recordOwner, s.recordCzxid, s.recordVersion, s.record = id, r.Stat.Czxid, r.Stat.Version, *parseSessionRecord(r.Data)
		s.record.Nonce, s.record.ID = string(who.Nonce), who.ID
	}
	s.mu.Unlock()
	b.mu.Lock()
	m := b.member
	b.mu.Unlock()
	if m != nil {
		if err := b.writeMember(ctx, s, *m); err != nil {
			return 0, err
		}
	}
	return id, nil
}

// sessionReads are the session records that one batch has read, each once.
type sessionReads struct {
	mu   sync.Mutex
	read map[string]func() (storedSession, error)
}

// A storedSession is a session record as read.
type storedSession struct {
	ensemble.Node
	record *sessionRecord
}

func newStoredSession(r ensemble.Node, err error) (storedSession, error) {
	return storedSession{r, parseSessionRecord(r.Data)}, err
}

func (m *sessionReads) get(path string, read func() (ensemble.Node, error)) (storedSession, error) {
	m.mu.Lock()
	f := m.read[path]
	if f == nil {
		f = sync.OnceValues(func() (storedSession, error) { return newStoredSession(read()) })
		if m.read == nil {
			m.read = map[string]func() (storedSession, error){}
		}
		m.read[path] = f
	}
	m.mu.Unlock()
	return f()
}
