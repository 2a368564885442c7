package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

// exitVacant is the code of "elect status NAME" if nobody leads.
const exitVacant = 1

// A store is a backend without a manager: for one look, or one request.
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

// openStore opens the store of a configuration that was read.
func openStore(ctx context.Context, c *config.Config) (*store, error) {
	b, err := c.OpenBackend(ctx)
	if err != nil {
		return nil, err
	}
	o, err := c.Election.Complete(b.Guarantees())
	if err != nil {
		b.Close()
		return nil, c.Validate(ctx) // in the words of the file
	}
	return &store{b, o, c}, nil
}

// name is what the store is called and where it is: which one, of several.
func (s *store) name() string {
	return strings.TrimSpace(s.config.Backend + " " + backend.Where(s.Backend))
}

// within runs a call of the store with a deadline. Looking by hand may take longer
// than what leads may wait for.
func (s *store) within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.CallTimeout, 10*time.Second))
	defer cancel()
	return call(ctx)
}

// record returns what is kept of an election. What others wrote is harmless in it.
func (s *store) record(ctx context.Context, name string) (r backend.Record, err error) {
	if err := backend.CheckName(name); err != nil {
		return r, err
	}
	err = s.within(ctx, func(ctx context.Context) error {
		list, err := s.List(ctx, name, 1)
		if err == nil && len(list) == 1 && list[0].Election == name {
			r = clean(list[0])
		}
		return err
	})
	r.Election = name
	return r, err
}

// all reads a list page by page; key is by what it is in order.
func all[T any](ctx context.Context, s *store, read func(ctx context.Context, from string, limit int) ([]T, error), key func(T) string) (list []T, err error) {
	const most = 500
	for from := ""; ; from = key(list[len(list)-1]) + "\x00" {
		var page []T
		if err := s.within(ctx, func(ctx context.Context) (err error) {
			page, err = read(ctx, from, most)
			return err
		}); err != nil {
			return nil, err
		}
		if list = append(list, page...); len(page) < most {
			return list, nil
		}
	}
}

// records returns all but those of elections that are forgotten.
func (s *store) records(ctx context.Context) ([]backend.Record, error) {
	list, err := all(ctx, s, s.List, func(r backend.Record) string { return r.Election })
	for i, r := range list {
		list[i] = clean(r)
	}
	return slices.DeleteFunc(list, backend.Record.Forgotten), err
}

func clean(r backend.Record) backend.Record {
	r.Election = backend.Clean(r.Election, backend.MaxName, false)
	r.Lease, r.Elected, r.History = backend.CleanLease(r.Lease), backend.CleanTime(r.Elected), backend.CleanHistory(r.History)
	return r
}

// members returns who has announced itself, in any election.
func (s *store) members(ctx context.Context) ([]backend.Member, error) {
	list, err := all(ctx, s, s.Members, func(m backend.Member) string { return m.Nonce })
	for i := range list {
		list[i] = backend.CleanMember(list[i])
	}
	return list, err
}

// A state is an election as JSON has it.
type state struct {
	Election  string       `json:"election"`
	Store     string       `json:"store,omitempty"` // of one election: the backend, and where it is
	Leader    *leader      `json:"leader"`          // null: nobody leads; if silent: who led last, for it has not renewed for its TTL
	Silent    bool         `json:"silent,omitempty"`
	Term      uint64       `json:"term,string"` // of the leader, or of the last one; a text, as in all JSON of ours: numbers above 2^53 are not exact there
	Elected   *time.Time   `json:"elected,omitempty"`
	TTL       float64      `json:"ttl_seconds,omitempty"`
	Age       float64      `json:"renewed_seconds_ago,omitempty"`
	LastID    string       `json:"last_leader,omitempty"`
	End       backend.End  `json:"last_end,omitempty"`
	Request   *request     `json:"request,omitempty"`
	MovedTo   string       `json:"moved_to,omitempty"`
	MovedFrom string       `json:"moved_from,omitempty"`
	History   []leadership `json:"history,omitempty"`
	Members   []person     `json:"members,omitempty"`
}

// A leadership is a past one, as [backend.Leadership], but for its term.
type leadership struct {
	backend.Leadership
	Term uint64 `json:"term,string"`
}

type leader struct {
	ID       string `json:"id"`
	Address  string `json:"address,omitempty"`
	Metadata string `json:"metadata,omitempty"`
}

type request struct {
	Kind backend.RequestKind `json:"kind"`
	ID   string              `json:"id,omitempty"`
}

type person struct {
	leader
	Stage string  `json:"stage,omitempty"`
	Age   float64 `json:"announced_seconds_ago"`
}

func stateOf(r backend.Record) state {
	s := state{
		Election: r.Election, Term: r.Term, TTL: r.TTL.Seconds(), LastID: r.LastID, End: r.End,
		MovedTo: r.MovedTo, MovedFrom: r.MovedFrom,
	}
	for _, h := range r.History {
		s.History = append(s.History, leadership{h, h.Term})
	}
	if !r.Vacant() {
		s.Leader, s.Age = &leader{r.Holder.ID, r.Holder.Address, r.Holder.Metadata}, r.Age.Seconds()
		if !r.Elected.IsZero() {
			s.Elected = &r.Elected
		}
	}
	if r.Request.Kind != "" {
		s.Request = &request{r.Request.Kind, r.Request.ID}
	}
	return s
}

// aged reports whether a leader, by the age of its lease, has not renewed it for its
// TTL. Where the store itself ends leases, what it shows is what counts.
func (s *store) aged(r backend.Record) bool {
	decided := r.ObserveFor == backend.ExpiresInStore && s.Guarantees().Expiry != backend.ByKernel
	return !r.Vacant() && !decided && r.TTL > 0 && r.Age > r.TTL
}

// silent returns which leaders do not renew any more. An age is a hint: on some stores
// it compares clocks of two machines. So a lease that is said to be old is watched for
// as long as a renewal may take: a leader that lives is seen to renew it.
func (s *store) silent(ctx context.Context, records []backend.Record) (map[string]bool, error) {
	type look struct {
		backend.Record
		written time.Time
	}
	seen := func(r backend.Record) look { return look{r, time.Now().Add(-r.Age)} }
	old, limit := map[string]look{}, time.Duration(0)
	for _, r := range records {
		if s.aged(r) {
			old[r.Election], limit = seen(r), max(limit, min(r.Renew, r.TTL, time.Minute)+s.CallTimeout)
		}
	}
	for end := time.Now().Add(limit); len(old) > 0 && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(limit/10, time.Second)):
		}
		for name, before := range old {
			r, err := s.record(ctx, name)
			if err != nil {
				return nil, err
			}
			now := seen(r) // the heartbeat also changes when a session ends, but is not written then
			renewed := now.Heartbeat != before.Heartbeat && now.written.After(before.written.Add(before.Renew/2))
			if now.Term != before.Term || renewed || !s.aged(r) {
				delete(old, name)
			}
		}
	}
	silent := map[string]bool{}
	for name := range old {
		silent[name] = true
	}
	return silent, nil
}

// word says in one word who leads, if anybody.
func (s *state) word() string {
	switch {
	case s.MovedTo != "":
		return "moved to " + s.MovedTo
	case s.Leader == nil:
		return "-"
	case s.Silent:
		return s.Leader.ID + " (silent)"
	}
	return s.Leader.ID
}

func (a *app) statusCommands() []*cobra.Command {
	var asJSON [3]bool
	list := &cobra.Command{
		Use: "list", Short: "List all elections of the store, and who leads them", Args: cobra.NoArgs,
		Example: example(onStore + "\nelect run billing -- true\nelect list\nelect list --json"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.list(c.Context(), asJSON[0]) },
	}
	status := &cobra.Command{
		Use: "status [NAME]", Short: "Show who leads, since when, and who takes part", Args: cobra.MaximumNArgs(1),
		Long: fmt.Sprintf(`Show what the store knows of an election, or of all.

The code is 0 if somebody leads NAME, %d if nobody does, %d if it cannot be told. A leader
that has not renewed its lease for its TTL is "silent": it cannot lead any more, and
nobody has followed yet, so the code is that for nobody. That is said after a look of
some seconds at whether it renews. What is shown may be as old as the reading; only the
leader itself knows that it leads.`, exitVacant, exitElect),
		Example: example(aLeader + "elect status" + endOfRun),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.list(c.Context(), asJSON[1])
			}
			return a.status(c.Context(), args[0], asJSON[1])
		},
	}
	history := &cobra.Command{
		Use: "history NAME", Short: fmt.Sprintf("Show the present leadership and the last %d", backend.MaxHistory), Args: cobra.ExactArgs(1),
		Example: example(onStore + "\nelect run billing -- true\nelect history billing"),
		RunE:    func(c *cobra.Command, args []string) error { return a.history(c.Context(), args[0], asJSON[2]) },
	}
	all := []*cobra.Command{list, status, history}
	for i, c := range all {
		c.Flags().BoolVar(&asJSON[i], "json", false, "as JSON")
	}
	return all
}

func (a *app) list(ctx context.Context, asJSON bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	records, err := s.records(ctx)
	if err != nil {
		return err
	}
	silent, err := s.silent(ctx, records)
	if err != nil {
		return err
	}
	states := make([]state, len(records))
	for i, r := range records {
		states[i] = stateOf(r)
		states[i].Silent = silent[r.Election]
	}
	if asJSON {
		return a.json(states)
	}
	if len(states) == 0 {
		fmt.Fprintf(a.out, "There are no elections yet on backend %s.\n", s.name())
		return nil
	}
	var w table
	w.row("ELECTION", "LEADER", "TERM", "SINCE", "RENEWED")
	for _, s := range states {
		since, renewed := "-", "-"
		if s.Elected != nil {
			since = s.Elected.Format(time.DateTime)
		}
		if s.Leader != nil {
			renewed = fmt.Sprintf("%.1fs ago", s.Age)
		}
		w.row(s.Election, s.word(), s.Term, since, renewed)
	}
	_, err = fmt.Fprintf(a.out, "%vThe store is %s.\n", w, s.name())
	return err
}

func (a *app) status(ctx context.Context, name string, asJSON bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := s.record(ctx, name)
	if err != nil {
		return err
	}
	members, err := s.members(ctx)
	if err != nil {
		return err
	}
	silent, err := s.silent(ctx, []backend.Record{r})
	if err != nil {
		return err
	}
	st := stateOf(r)
	st.Store, st.Silent = s.name(), silent[name]
	members = slices.DeleteFunc(members, func(m backend.Member) bool { return !m.CampaignsFor(name) && m.Nonce != r.Holder.Nonce })
	for _, m := range members {
		st.Members = append(st.Members, person{leader{m.ID, m.Address, m.Metadata}, m.Stage, m.Age.Seconds()})
	}
	if st.Leader == nil || st.Silent {
		a.code = exitVacant
	}
	if asJSON {
		return a.json(st)
	}
	line := func(what, format string, args ...any) {
		fmt.Fprintf(a.out, "%-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("election", "%s", name)
	line("store", "%s", st.Store)
	switch {
	case r.Term == 0:
		line("leader", "nobody has led yet")
	case st.Leader == nil:
		line("leader", "nobody; the last was %q, %s", st.LastID, orUnknown(string(st.End)))
		line("term", "%d, the last", st.Term)
	default:
		line("leader", "%s", st.word())
		if st.Leader.Address != "" {
			line("address", "%s", st.Leader.Address)
		}
		if st.Leader.Metadata != "" {
			line("metadata", "%q", st.Leader.Metadata)
		}
		line("term", "%d", st.Term)
		if st.Elected != nil {
			line("since", "%s, by the store's clock", st.Elected.Format(time.RFC3339))
		}
		line("renewed", "%.1fs ago; it lasts %v and is renewed every %v", st.Age, r.TTL, rounded(r.Renew))
	}
	if st.Request != nil {
		line("request", "%s %s", st.Request.Kind, st.Request.ID)
	}
	if st.MovedTo != "" {
		line("moved", "to %s: nobody leads by this store any more", st.MovedTo)
	}
	if st.MovedFrom != "" {
		line("moved", "from %s", st.MovedFrom)
	}
	if len(members) == 0 {
		line("members", "nobody has announced a candidacy")
	}
	for i, m := range members {
		text := m.ID
		if m.Age > 0 { // else the store itself knows that it is there
			text += fmt.Sprintf(", %.1fs ago", m.Age.Seconds())
		}
		if m.Stage != "" {
			text += ", stage " + m.Stage
		}
		line([]string{"members", ""}[min(i, 1)], "%s", text)
	}
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "how it ended is not known"
	}
	return s
}

func (a *app) history(ctx context.Context, name string, asJSON bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := s.record(ctx, name)
	if err != nil {
		return err
	}
	if asJSON {
		return a.json(stateOf(r))
	}
	if r.Term == 0 {
		return errors.New("nobody has led " + fmt.Sprintf("%q", name) + " yet, or this store keeps nothing of it")
	}
	silent, err := s.silent(ctx, []backend.Record{r})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(a.out, historyOf(r, silent[r.Election])); err != nil {
		return err
	}
	fmt.Fprintln(a.out, "Times are UTC, by the store's clock, for people: nothing is decided by them.")
	return nil
}

// historyOf has a line for each leadership, newest first, and one for the time between two
// in which nobody led for a second or more.
func historyOf(r backend.Record, silent bool) (w table) {
	line := func(term any, id string, from, to time.Time, end string) {
		w.row(term, id, from.Format(time.DateTime), to.Format(time.DateTime), to.Sub(from).Round(time.Millisecond), end)
	}
	w.row("TERM", "LEADER", "FROM", "TO", "FOR", "END")
	next := time.Time{} // when the one above began
	switch {
	case r.Vacant() && (len(r.History) == 0 || r.History[0].Term != r.Term):
		w.row(r.Term, r.LastID, "-", "-", "-", orUnknown(string(r.End))) // the store keeps no times of it yet
		next = time.Now()
	case !r.Vacant():
		end := "leads"
		if silent {
			end = fmt.Sprintf("silent: has not renewed for %v", rounded(r.Age))
		}
		next = r.Elected
		w.row(r.Term, r.Holder.ID, r.Elected.Format(time.DateTime), "-", "-", end)
	}
	for _, h := range r.History {
		if next.IsZero() {
			w.row("-", "nobody", h.To.Format(time.DateTime), "-", "-", "vacant")
		} else if next.Sub(h.To) >= time.Second {
			line("-", "nobody", h.To, next, "vacant")
		}
		line(h.Term, h.ID, h.From, h.To, strings.TrimSpace(string(h.End)))
		next = h.From
	}
	return w
}
