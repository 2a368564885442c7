package electionguard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// A store is the guard's access to the store. While the program holds a lease a connection is kept
// open, for which one record is read in each TTL: connecting takes longer than a release.
type store struct {
	open Open
	text []byte // Options.Store

	mu        sync.Mutex
	backend   backend.Backend    // nil: not open
	endRead   context.CancelFunc // nil: it is not kept open
	releasing bool               // release is using it
}

// keepOpen keeps the store open until letClose: it reads the record of one election that the program holds.
func (s *store) keepOpen(election string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endRead == nil {
		var ctx context.Context
		ctx, s.endRead = context.WithCancel(context.Background())
		go s.read(ctx, election, ttl)
	}
}

func (s *store) letClose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endRead != nil {
		s.endRead()
		s.endRead = nil
	}
}

// read reads a record in each TTL, until ctx ends.
func (s *store) read(ctx context.Context, name string, ttl time.Duration) {
	tick := time.NewTicker(ttl)
	defer tick.Stop()
	for {
		s.observe(ctx, name, ttl)
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.backend != nil && !s.releasing {
				s.backend.Close()
				s.backend = nil
			}
			return
		}
	}
}

func (s *store) observe(ctx context.Context, name string, ttl time.Duration) {
	b, err := s.opened(ctx)
	if err != nil {
		return
	}
	call, cancel := callTimeout(ctx, ttl)
	defer cancel()
	if _, err := b.Observe(call, []backend.Lease{{Election: name}}); err != nil && ctx.Err() == nil {
		s.close(b)
	}
}

// callTimeout is that of a manager by default.
func callTimeout(ctx context.Context, ttl time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(ttl/4, time.Millisecond))
}

func (s *store) opened(ctx context.Context) (backend.Backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend != nil {
		return s.backend, nil
	}
	b, err := s.open(ctx, s.text)
	if err != nil {
		return nil, err
	}
	s.backend = b
	return b, nil
}

// close closes b, which does not work. The next call opens the store anew.
func (s *store) close(b backend.Backend) {
	s.mu.Lock()
	if s.backend == b {
		s.backend = nil
	}
	s.mu.Unlock()
	b.Close()
}

// release releases leases, and tries again until they have expired.
func (s *store) release(nonce backend.Nonce, held []backend.Held) error {
	s.mu.Lock()
	s.releasing = true
	s.mu.Unlock()
	ttl := held[0].TTL
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	for {
		b, err := s.opened(ctx)
		if err == nil {
			err = s.tryRelease(ctx, b, nonce, held)
			s.close(b)
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(min(ttl/50, 200*time.Millisecond)):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *store) tryRelease(ctx context.Context, b backend.Backend, nonce backend.Nonce, held []backend.Held) error {
	ctx, cancel := callTimeout(ctx, held[0].TTL)
	defer cancel()
	if err := backend.CanAdopt(b); err != nil {
		return fmt.Errorf("%w: %w", backend.ErrInvalid, err)
	}
	if err := b.(backend.Adopter).Adopt(nonce, held); err != nil {
		return err
	}
	return b.Release(ctx, held)
}
