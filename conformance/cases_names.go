package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

var nameCases = []Case{
	{Rule: "S15", Name: "different names are different elections", Run: namesExact,
		Says: "The store compares names byte by byte: two different names are two elections, whatever case, accents, spaces or slashes they contain."},
	{Rule: "S15", Name: "text is returned byte for byte", Run: namesText,
		Says: "The store returns ids, addresses and metadata up to their limits byte for byte."},
	{Rule: "S15", Name: "hostile text in a record harms no election", Run: namesPlanted, Fault: FaultPlantRecord,
		Says: "A record into which an attacker wrote hostile text is read as clean text, and affects no other election."},
}

// names returns election names that a careless store would confuse.
func names() []string {
	list := []string{
		"a", "A", "a ", " a", "a  ", "a.", "a/", "a//", "/a", "a/b", "a//b", "a/B", "a\\b", "a\\\\b", "A/B",
		"\u00e1", "a\u0301", "\u00c1", "\u00e4", "\u00e6", "ae", "\u00df", "ss", "\u0131", "i", "I", "\u0130", "\u212a", "k", "K",
		"\uff41", "\u0430", // full-width and Cyrillic a
		"..", ".", "../x", "x", "./x", "%", "%a", "a%", "_", "_a", "%61", "a%2fb", "*", "?", "[a]", "{a}", "${a}", "#", "~", "$",
		"'", "''", "\"", "`", ";", "--", "' OR '1'='1", "a'; DROP TABLE election; --", "\\", "\\'", "\\0", "\\x00",
		"0", "00", "0.0", "-0", "1", "1e0", "+1", "null", "NULL", "nil", "true", "<a>", "&amp;",
		"\U0001F600", "\U0001F44D", "\U0001F44D\U0001F3FD", "\u65e5\u672c", "\u0645",
		"a\u00a0b", "a b", "election", "lock-0000000001", "a:b", "a=b", "a,b", "a|b",
	}
	long := strings.Repeat("n", backend.MaxName-1)
	return append(list, long+"1", long+"2", long, strings.Repeat("\u00e9", 127)+"x", strings.Repeat("\U0001F600", 63)+"abc")
}

// texts returns one-line texts of up to max bytes that a careless store would change.
func texts(max int) []string {
	return []string{
		"x", " x ", "X", "\u00e1", "a\u0301", "\U0001F600", "'", "\"", "\\", "\\n", "%s%d", "`", "a/b", "../x", "<script>", "${x}", "{\"a\":1}", "NULL",
		strings.Repeat("m", max), strings.Repeat("\u00e9", max/2), "a#b", "a|b,c;d", "' OR 1=1 --",
	}
}

func namesExact(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.winAll(names()))
	h := &nameHolders{t: t, a: a, b: b, held: held, renewed: time.Now()}

	// Each name is a separate lease: b takes over every second one, and the others must
	// not change.
	for i, name := range names() {
		require(h.renewIfDue())
		if i%2 == 0 {
			continue
		}
		l := held[name]
		require(a.release(backend.Released, l))
		held[name] = must(b.win(name))
	}

	for i, name := range names() {
		require(h.renewIfDue())
		holder := a
		if i%2 == 1 {
			holder = b
		}
		require(h.check(name, holder))
	}
	return nil
}

// winAll acquires all these elections, which have never had a leader, in one call.
func (c *client) winAll(names []string) (map[string]backend.Lease, error) {
	for _, name := range names {
		if err := backend.CheckName(name); err != nil {
			return nil, fmt.Errorf("name %q of this suite: %w", name, err)
		}
	}
	bids, err := c.bidsFor(names...)
	if err != nil {
		return nil, err
	}
	for _, b := range bids {
		if err := equal(fmt.Sprintf("term of %q, which never had a leader", b.Election), b.Expected.Term, 0); err != nil {
			return nil, err
		}
	}
	answers, err := c.acquire(bids...)
	if err != nil {
		return nil, err
	}
	held := map[string]backend.Lease{}
	for i, got := range answers {
		name := bids[i].Election
		if err := errors.Join(equal(fmt.Sprintf("outcome of a bid for %q", name), got.Outcome, backend.Granted), equal("name in its answer", got.Election, name)); err != nil {
			return nil, fmt.Errorf("%w (error %v)", err, got.Err)
		}
		held[name] = got.Lease
	}
	return held, nil
}

// nameHolders are two clients and the leases that they hold.
type nameHolders struct {
	t       *Trial
	a, b    *client
	held    map[string]backend.Lease
	renewed time.Time // the last time
}

// renewIfDue renews all leases from time to time, since the case may take longer than a
// session lasts.
func (h *nameHolders) renewIfDue() error {
	if time.Since(h.renewed) <= h.t.renewEvery() {
		return nil
	}
	h.renewed = time.Now()
	return errors.Join(h.renewAll(h.a), h.renewAll(h.b))
}

func (h *nameHolders) renewAll(c *client) error {
	var leases []backend.Lease
	for _, l := range h.held {
		if l.Holder == c.candidate {
			leases = append(leases, l)
		}
	}
	if len(leases) == 0 {
		return nil
	}
	answers, err := c.renew(leases...)
	for _, got := range answers {
		err = errors.Join(err, equal(fmt.Sprintf("outcome of a renewal of %q", got.Election), got.Outcome, backend.Granted))
		h.held[got.Election] = got.Lease
	}
	return err
}

// check reads one lease and its record, and compares them with the last grant or renewal.
func (h *nameHolders) check(name string, holder *client) error {
	now, err := h.b.read(name)
	if err := errors.Join(err,
		equal("name read", now.Election, name),
		equal(fmt.Sprintf("term of %q", name), now.Term, h.held[name].Term),
		equal(fmt.Sprintf("holder of %q", name), now.Holder.ID, holder.candidate.ID)); err != nil {
		return err
	}
	// On a busy machine a session may end, and its leases may continue in another one.
	if err := equal(fmt.Sprintf("Version of %q", name), now.Version, h.held[name].Version); err != nil && h.t.Virtual {
		return err
	}
	records, err := h.b.list(name, 1)
	return errors.Join(err, expect(len(records) == 1 && records[0].Election == name, fmt.Sprintf("the record of %q first in a list that begins there", name), fmt.Sprint(records)))
}

func namesText(t *Trial) error {
	b := t.client("reader")
	ids, metadata := texts(backend.MaxID), texts(backend.MaxMetadata)
	metadata[0] = "line one\n\tline two\r\n\nend \n"
	for i := range ids {
		a := t.client(ids[i])
		a.candidate.Address, a.candidate.Metadata = texts(backend.MaxAddress)[i], metadata[i]
		name := fmt.Sprintf("jobs%d", i)
		held, err := a.win(name)
		if err != nil {
			return fmt.Errorf("candidate with id %.40q and metadata %.40q: %w", a.candidate.ID, a.candidate.Metadata, err)
		}
		read := must(b.read(name))
		require(equal("winner's answer", held.Holder, a.candidate), equal("reader's answer", read.Holder, a.candidate))

		require(a.announce())
		members := must(b.members(string(a.candidate.Nonce), 1))
		require(equal("members", len(members), 1))
		require(equal("member record", members[0].Candidate, a.candidate))

		require(a.release(backend.Released, held))
		read = must(b.read(name))
		require(equal("LastID", read.LastID, a.candidate.ID))
	}
	return nil
}

func namesPlanted(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	before := must(b.win("planted"))
	require(t.inject(FaultPlantRecord, true, "planted"))
	changed := must(a.observe(backend.Lease{Election: "planted"}, backend.Lease{Election: "jobs"}))
	for _, l := range changed {
		if l.Election == "planted" && l.Holder == before.Holder {
			return fmt.Errorf("expected the fault %s to change the record, got %+v: the harness's function does nothing", FaultPlantRecord, l)
		}
	}

	must(a.list("", 10))
	must(a.keep(held))
	isHeld := func(l backend.Lease) bool { return l.Election == "jobs" && l.Holder == a.candidate }
	require(expect(slices.ContainsFunc(changed, isHeld), "Observe to return the other election beside the planted one", fmt.Sprint(changed)))

	o := must(t.participant("observer", "planted", nil))
	t.sleep(t.TTL)
	for _, e := range o.events() {
		if e.Leader.ID == "" {
			continue
		}
		if err := errors.Join(backend.CheckID(e.Leader.ID), backend.CheckText("address", e.Leader.Address, backend.MaxAddress, false),
			backend.CheckText("metadata", e.Leader.Metadata, backend.MaxMetadata, true)); err != nil {
			return fmt.Errorf("expected watchers to receive clean text, got %w", err)
		}
	}
	return nil
}
