package elect

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/page"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

// A store is a backend without a manager, for commands that read the store or write one request.
type store struct {
	backend.Backend
	election.Options // complete
	config           *config.Config
}

func (a *app) openStore(ctx context.Context) (*store, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	return openStore(ctx, c)
}

// withStore makes a command's function of one that uses the store.
func (a *app) withStore(do func(ctx context.Context, s *store, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		s, err := a.openStore(c.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		return do(c.Context(), s, args)
	}
}

func openStore(ctx context.Context, c *config.Config) (*store, error) {
	b, err := c.OpenBackend()
	if err != nil {
		return nil, err
	}
	o, err := c.Election.Complete(b.Guarantees())
	if err != nil {
		b.Close()
		return nil, c.Validate(ctx) // returns the same error, with the line of the file
	}
	return &store{b, o, c}, nil
}

// name returns the backend's name and where its store is, for operators of several stores.
func (s *store) name() string {
	return strings.TrimSpace(s.config.Backend + " " + clean.Where(s.Backend))
}

// within calls the store with a timeout. A command may wait longer than a leader may.
func (s *store) within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.CallTimeout, 10*time.Second))
	defer cancel()
	return call(ctx)
}

// record returns the record of an election, cleaned for a terminal.
func (s *store) record(ctx context.Context, name string) (r backend.Record, err error) {
	if err := backend.CheckName(name); err != nil {
		return r, err
	}
	err = s.within(ctx, func(ctx context.Context) error {
		list, err := s.List(ctx, name, 1)
		if err == nil && len(list) == 1 && list[0].Election == name {
			r = clean.Record(list[0])
		}
		return err
	})
	r.Election = name
	return r, err
}

// records returns the records of all elections, or of those that a pattern matches, without forgotten ones,
// cleaned for a terminal. A pattern is that of path.Match: * stands for any text without a slash.
func (s *store) records(ctx context.Context, pattern string) ([]backend.Record, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	list, err := unforgotten(page.All(ctx, s.within, s.List, func(r backend.Record) string { return r.Election }))
	return slices.DeleteFunc(list, func(r backend.Record) bool {
		matches, _ := path.Match(pattern, r.Election)
		return pattern != "" && !matches
	}), err
}

// named returns the record of an election, or those of all elections that a pattern matches, at least one.
func (s *store) named(ctx context.Context, name string) ([]backend.Record, error) {
	if !isPattern(name) {
		r, err := s.record(ctx, name)
		return []backend.Record{r}, err
	}
	records, err := s.records(ctx, name)
	if err == nil && len(records) == 0 {
		err = fmt.Errorf("no election on %s matches %q", s.name(), name)
	}
	return records, err
}

func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// unforgotten collects records without forgotten ones, cleaned for a terminal.
func unforgotten(records iter.Seq2[backend.Record, error]) (list []backend.Record, err error) {
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if !r.Forgotten() {
			list = append(list, clean.Record(r))
		}
	}
	return list, nil
}

// members returns the members of all elections, cleaned for a terminal.
func (s *store) members(ctx context.Context) (list []backend.Member, err error) {
	for m, err := range page.All(ctx, s.within, s.Members, func(m backend.Member) string { return string(m.Nonce) }) {
		if err != nil {
			return nil, err
		}
		list = append(list, clean.Member(m))
	}
	return list, nil
}

// overdue reports whether the age of a lease exceeds its TTL, so that its holder is probably
// dead. It is false where the store itself expires leases: there a lease that is shown is held.
func (s *store) overdue(r backend.Record) bool {
	expiresInStore := r.ObserveFor == backend.ExpiresInStore && s.Guarantees().Expiry != backend.ByKernel
	return !r.Vacant() && !expiresInStore && r.TTL > 0 && r.Age > r.TTL
}

// observed returns the record of an election, and whether its leader is silent.
func (s *store) observed(ctx context.Context, name string) (backend.Record, bool, error) {
	r, err := s.record(ctx, name)
	if err != nil {
		return r, false, err
	}
	records := []backend.Record{r}
	silent, err := s.silent(ctx, records)
	return records[0], silent[name], err
}

// silent returns the elections whose leader no longer renews its lease. An age alone is only a
// hint, because on some stores it compares the clocks of two machines. So silent observes each
// overdue lease for as long as a renewal may take: a leader that is alive renews it. What silent has read
// of a record last replaces it: meanwhile another process may lead.
func (s *store) silent(ctx context.Context, records []backend.Record) (map[string]bool, error) {
	type reading struct {
		backend.Record
		written time.Time
	}
	newReading := func(r backend.Record) reading { return reading{r, time.Now().Add(-r.Age)} }
	overdue, limit := map[int]reading{}, time.Duration(0) // by index
	silent := map[string]bool{}
	for i, r := range records {
		if !r.Vacant() && r.ObserveFor == 0 && s.Guarantees().Expiry == backend.ByKernel { // the kernel says that the leader has ended
			silent[r.Election] = true
		} else if s.overdue(r) {
			overdue[i], limit = newReading(r), max(limit, min(r.Renew, r.TTL, time.Minute)+s.CallTimeout)
		}
	}
	for end := time.Now().Add(limit); len(overdue) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(limit/10, time.Second)):
		}
		for i, before := range overdue {
			r, err := s.record(ctx, before.Election)
			if err != nil {
				return nil, err
			}
			records[i] = r
			now := newReading(r)
			// The Version also changes when a session ends, but then the lease is not written.
			renewed := now.Version != before.Version && now.written.After(before.written.Add(before.Renew/2))
			if now.Term != before.Term || renewed || !s.overdue(r) {
				delete(overdue, i)
			}
		}
	}
	for _, r := range overdue {
		silent[r.Election] = true
	}
	return silent, nil
}
