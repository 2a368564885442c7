package lease

import (
	"time"
	"unique"

	"github.com/go-election/go-election/backend"
)

// A packed record is that of a lease which this process holds. There may be many thousands, so what all of
// them have in common is kept once.
type packed struct {
	alike            unique.Handle[alike]
	write            int64
	term             uint64
	heartbeat        Heartbeat
	elected, written int64 // in microseconds since 1970: see now
	history          []backend.Leadership
}

// alike is what the records of one process mostly have in common.
type alike struct {
	id, nonce, address, metadata string
	ttl, renew                   Span
	session, epoch               string
	end                          backend.End
	lastID, movedTo, movedFrom   string
	request                      *Request
}

// now is the time for the record of a grant. A packed one keeps no nanoseconds.
func (b *Backend) now() time.Time { return b.limits.Now().UTC().Truncate(time.Microsecond) }

func pack(r *Record) packed {
	return packed{
		alike: unique.Make(alike{
			r.ID, r.Nonce, r.Address, r.Metadata, r.TTL, r.Renew, r.Session, r.Epoch,
			r.End, r.LastID, r.MovedTo, r.MovedFrom, r.Request,
		}),
		write: r.Write, term: r.Term, heartbeat: r.Heartbeat,
		elected: r.Elected.UnixMicro(), written: r.Written.UnixMicro(), history: r.History,
	}
}

// record returns the record of an election that was packed.
func (p *packed) record(election string) Record {
	a := p.alike.Value()
	return Record{
		Election: election, Write: p.write, Term: p.term, Heartbeat: p.heartbeat, History: p.history,
		Elected: time.UnixMicro(p.elected).UTC(), Written: time.UnixMicro(p.written).UTC(),
		ID: a.id, Nonce: a.nonce, Address: a.address, Metadata: a.metadata,
		TTL: a.ttl, Renew: a.renew, Session: a.session, Epoch: a.epoch,
		End: a.end, LastID: a.lastID, MovedTo: a.movedTo, MovedFrom: a.movedFrom, Request: a.request,
	}
}
