package elect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

func (a *app) nominateCommand() *cobra.Command {
	var wait time.Duration
	c := a.addYes(&cobra.Command{
		Use: "nominate NAME ID", Short: "Request that the candidate ID lead next", Args: cobra.ExactArgs(2),
		Long: `Write beside the lease of NAME the request that the candidate ID should lead next.

When that candidate is ready, the leader ends its work and releases the lease, and for one TTL only
the nominee bids. The request holds for the current term only. With --wait, elect waits until ID
leads; the code is 124 if it does not in that time, or if another candidate leads.`,
		Example: example(aLeader + "elect nominate billing host-2 --yes\n" +
			"elect run billing --id host-2 -- echo host-2 leads" + endOfRun),
		RunE: a.withStore(func(ctx context.Context, s *store, args []string) error {
			if err := backend.CheckID(args[1]); err != nil {
				return err
			}
			q := backend.Request{Election: args[0], Kind: backend.Nominate, ID: args[1]}
			term, err := a.request(ctx, s, q)
			if err == nil && wait > 0 {
				err = a.awaitNominee(ctx, args[0], args[1], term, wait)
			}
			return err
		}),
	})
	c.Flags().DurationVar(&wait, "wait", 0, "wait for so long until ID leads (default: do not wait)")
	return c
}

func (a *app) deposeCommand() *cobra.Command {
	return a.addYes(&cobra.Command{
		Use: "depose NAME", Short: "End the current leadership", Args: cobra.ExactArgs(1),
		Long: `Write beside the lease of NAME the request that its leader be deposed.

The store refuses the leader's next renewal. The leader ends its work, releases the lease, and
does not campaign for one TTL. One that is stopped or cut off does not read the request; its lease expires.`,
		Example: example(aLeader + "elect depose billing --yes" + endOfRun),
		RunE: a.withStore(func(ctx context.Context, s *store, args []string) error {
			_, err := a.request(ctx, s, backend.Request{Election: args[0], Kind: backend.Depose})
			return err
		}),
	})
}

// awaitNominee waits until somebody leads in a term after the request's: another one is an error.
func (a *app) awaitNominee(ctx context.Context, name, id string, term uint64, limit time.Duration) error {
	later := func(ev election.Event) bool { return ev.Kind == election.Elected && ev.Term > term }
	ev, err := a.await(ctx, name, limit, later)
	if err == nil && ev.Leader.ID != id {
		a.code = exitTimeout
		return fmt.Errorf("%q does not lead %q", id, name)
	}
	return err
}

// request writes a request. It returns the term of the leadership that the request is about.
func (a *app) request(ctx context.Context, s *store, q backend.Request) (term uint64, err error) {
	r, err := s.record(ctx, q.Election)
	if err != nil {
		return 0, err
	}
	switch {
	case r.MovedTo != "":
		return 0, fmt.Errorf("%q has moved to %s; nobody leads it by this store", q.Election, r.MovedTo)
	case r.Vacant():
		return 0, fmt.Errorf("nobody leads %q", q.Election)
	case q.ID != "" && r.Holder.ID == q.ID:
		return 0, fmt.Errorf("%q leads %q already", q.ID, q.Election)
	}
	text, err := requestText(ctx, s, r, q)
	if err != nil {
		return 0, err
	}
	fmt.Fprintln(a.diag, text)
	if err := a.confirm("This changes who leads."); err != nil {
		return 0, err
	}
	q.Term = r.Term
	err = s.within(ctx, func(ctx context.Context) error { return s.Request(ctx, []backend.Request{q}) })
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(a.out, "The request is written. To see its effect: elect watch %s\n", q.Election)
	return r.Term, nil
}

// requestText says what a request will do, by the holder's own timings, and how long that takes at most.
func requestText(ctx context.Context, s *store, r backend.Record, q backend.Request) (string, error) {
	ttl, renew := rounded(r.TTL), rounded(r.Renew)
	text := fmt.Sprintf("%q leads %q in term %d. ", r.Holder.ID, r.Election, r.Term)
	if s.overdue(r) {
		text += fmt.Sprintf("It has not renewed for %v. If it is dead, this has no effect. ", rounded(r.Age))
	}
	if q.Kind == backend.Depose {
		return text + fmt.Sprintf("The store refuses its next renewal, within %v. It ends its work (elect "+
			"run sends SIGTERM), within %v at most, releases the lease, and does not campaign for %[2]v. "+
			"If the release fails, the lease expires after %[2]v more.", renew, ttl), nil
	}
	text += fmt.Sprintf("When %q is ready, within %v, the leader ends its work (elect run sends SIGTERM) "+
		"and releases the lease. Then only %[1]q bids for %[3]v. If the work does not end within "+
		"step_down_timeout, the lease expires after %[3]v more.", q.ID, renew, ttl)
	members, err := s.members(ctx)
	if err == nil && !slices.ContainsFunc(members, func(m backend.Member) bool { return m.ID == q.ID }) {
		text += "\nNo member with this id has announced itself. Nothing happens until there is one."
	}
	return text, err
}

// rounded rounds a duration for people: a third of 10s is 3.333s.
func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
