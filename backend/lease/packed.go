package lease

import (
	"time"
	"unique"

	"github.com/go-election/go-election/backend"
)

// A packed record is that of a lease which this process holds. There may be many thousands, and most of what they say is
// the same in all of them.
type packed struct {
	alike     unique.Handle[alike]
	write     int64
	term      uint64
	heartbeat Heartbeat
	elected   moment
	written   moment
	more      *more // nil: nothing of it
}

// A moment is a time in nanoseconds since 1970, in a third of the memory; 0: none. It is another one in years before 1678
// and after 2262, which only a foreign writer has. What is written by it is then refused, and the record is read.
type moment int64

func momentOf(t time.Time) moment {
	if t.IsZero() {
		return 0
	}
	return moment(t.UnixNano())
}

func (m moment) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(m)).UTC()
}

// alike is what the records of one process have in common.
type alike struct {
	id, nonce, address, metadata string
	ttl, renew                   Span
	session, epoch               string
}

// more is what the record of an election does not have before its first leader has ended.
type more struct {
	end                backend.End
	lastID             string
	history            []backend.Leadership
	request            *Request
	movedTo, movedFrom string
}

func pack(r *Record) packed {
	p := packed{
		write: r.Write, term: r.Term, heartbeat: r.Heartbeat,
		elected: momentOf(r.Elected), written: momentOf(r.Written),
		alike: unique.Make(alike{r.ID, r.Nonce, r.Address, r.Metadata, r.TTL, r.Renew, r.Session, r.Epoch}),
	}
	if r.End != "" || r.LastID != "" || r.History != nil || r.Request != nil || r.MovedTo != "" || r.MovedFrom != "" {
		p.more = &more{r.End, r.LastID, r.History, r.Request, r.MovedTo, r.MovedFrom}
	}
	return p
}

// record returns the record of an election that was packed.
func (p *packed) record(election string) Record {
	a := p.alike.Value()
	r := Record{
		Election: election, Write: p.write, Term: p.term, Heartbeat: p.heartbeat,
		Elected: p.elected.time(), Written: p.written.time(),
		ID: a.id, Nonce: a.nonce, Address: a.address, Metadata: a.metadata,
		TTL: a.ttl, Renew: a.renew, Session: a.session, Epoch: a.epoch,
	}
	if m := p.more; m != nil {
		r.End, r.LastID, r.History, r.Request = m.end, m.lastID, m.history, m.request
		r.MovedTo, r.MovedFrom = m.movedTo, m.movedFrom
	}
	return r
}

// session is the generation of the session that renews the record.
func (p *packed) session() string { return p.alike.Value().session }
