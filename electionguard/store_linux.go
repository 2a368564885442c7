package electionguard

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// A store is the guard's access to the store.
type store struct {
	open     Open
	holdings *holdings
	backend  backend.Backend // nil: not open
}

func (s *store) opened(ctx context.Context) (b backend.Backend, err error) {
	if s.backend == nil {
		if b, err = s.open(ctx, s.holdings.store); err != nil {
			return nil, err
		}
		s.backend = b
	}
	return s.backend, nil
}

// close closes the store. The next call opens it anew.
func (s *store) close() {
	if s.backend != nil {
		s.backend.Close()
		s.backend = nil
	}
}

// read reads the record of an election, so that the store stays open.
func (s *store) read(election string, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), ttl/4) // as a manager, by default
	defer cancel()
	b, err := s.opened(ctx)
	if err == nil {
		_, err = b.Observe(ctx, []backend.Lease{{Election: election}})
	}
	if err != nil {
		s.close()
	}
}

// release releases leases, and tries again until they have expired.
func (s *store) release(nonce backend.Nonce, held []backend.Held) error {
	ttl := held[0].TTL
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	for {
		err := s.tryRelease(ctx, nonce, held)
		s.close()
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

func (s *store) tryRelease(ctx context.Context, nonce backend.Nonce, held []backend.Held) error {
	b, err := s.opened(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, held[0].TTL/4)
	defer cancel()
	if err := backend.CanAdopt(b); err != nil {
		return fmt.Errorf("%w: %w", backend.ErrInvalid, err)
	}
	if err := b.(backend.Adopter).Adopt(nonce, held); err != nil {
		return err
	}
	return b.Release(ctx, held)
}
