package mysql

import (
	"context"
	"database/sql"
	"sync"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A candidateCache has the candidates by id and nonce. Address and metadata never change
// under one nonce, so that they are read once and not with every renewal.
type candidateCache struct {
	sync.Mutex
	known map[candidateKey]backend.Candidate
}

type candidateKey struct{ id, nonce string }

// maxCachedCandidates bounds the cache. When it is full it is emptied.
const maxCachedCandidates = 1000

// get returns the candidate. If it is not known, only id and nonce are set, unchecked.
func (p *candidateCache) get(id, nonce sql.RawBytes) (c backend.Candidate, known bool) {
	p.Lock()
	defer p.Unlock()
	if c, known = p.known[candidateKey{string(id), string(nonce)}]; !known {
		c = backend.Candidate{ID: string(id), Nonce: backend.Nonce(nonce)}
	}
	return c, known
}

func (p *candidateCache) add(key candidateKey, c backend.Candidate) {
	p.Lock()
	defer p.Unlock()
	if p.known == nil || len(p.known) >= maxCachedCandidates {
		p.known = make(map[candidateKey]backend.Candidate)
	}
	p.known[key] = c
}

// readCandidates reads address and metadata of holders that are not known yet: one row for
// each holder, however many elections it leads.
func (s *session) readCandidates(ctx context.Context, rows []row) error {
	names := make(map[candidateKey][]byte)
	for i := range rows {
		if rows[i].unknownHolder {
			names[candidateKey{rows[i].Holder.ID, string(rows[i].Holder.Nonce)}] = []byte(rows[i].Election)
		}
	}
	if len(names) == 0 {
		return nil
	}
	args := make([]any, 0, len(names))
	for _, name := range names {
		args = append(args, name)
	}
	result, err := s.query(ctx, s.fill(candidatesSQL, placeholders("?", len(args))), args...)
	if err != nil {
		return err
	}
	defer result.Close()
	for result.Next() {
		var id, nonce, address, metadata string
		if err := result.Scan(&id, &nonce, &address, &metadata); err != nil {
			return err
		}
		s.backend.candidates.add(candidateKey{id, nonce}, clean.Candidate(backend.Candidate{ID: id, Nonce: backend.Nonce(nonce), Address: address, Metadata: metadata}))
	}
	for i := range rows {
		if r := &rows[i]; r.unknownHolder {
			// A holder that has lost the lease meanwhile has no address here; the next
			// read shows the new holder.
			c, _ := s.backend.candidates.get([]byte(r.Holder.ID), []byte(r.Holder.Nonce))
			r.Holder = clean.Candidate(c)
		}
	}
	return result.Err()
}
