package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
)

var nameCases = []Case{
	{Rule: "S15", Name: "different names are different elections", Run: namesExact,
		Says: "The store compares names byte by byte: two different names are two elections, whatever case, accents, spaces or slashes they contain."},
	{Rule: "S15", Name: "text is returned byte for byte", Run: namesText,
		Says: "The store returns ids, addresses and metadata up to their limits byte for byte, and ids in requests."},
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
		"$1 {payload} {table} ?",
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

func namesExact(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.winAll(names()...)

	// Each name is a separate lease: b takes over every second one, and the others must not change.
	var others []string
	var released []backend.Lease
	for i, name := range names() {
		if i%2 == 1 {
			others, released = append(others, name), append(released, held[name])
		}
	}
	a.release(backend.Released, released...)
	maps.Copy(held, b.winAll(others...))

	now, records := b.observe(zeroLeases(names()...)...), b.list("", 2*len(held))
	require(equal("leases read", len(now), len(held)), equal("records", len(records), len(held)))
	for _, l := range now {
		want := held[l.Election]
		require(equal(fmt.Sprintf("term of %q", l.Election), l.Term, want.Term), equal(fmt.Sprintf("holder of %q", l.Election), l.Holder, want.Holder))
		if t.Virtual { // on a busy machine a session may end, and its leases may continue in another one
			require(equal(fmt.Sprintf("Version of %q", l.Election), l.Version, want.Version))
		}
	}
	for i, name := range slices.Sorted(maps.Keys(held)) {
		require(equal(fmt.Sprintf("record %d", i), records[i].Election, name))
	}
}

// winAll acquires all these free leases in one call.
func (c *client) winAll(names ...string) map[string]backend.Lease {
	for _, name := range names {
		require(backend.CheckName(name))
	}
	held := map[string]backend.Lease{}
	for i, got := range c.acquire(c.bidsFor(names...)...) {
		require(equal(fmt.Sprintf("outcome of a bid for %q (%v)", names[i], got.Err), got.Outcome, backend.Granted), equal("name in its answer", got.Election, names[i]))
		held[names[i]] = got.Lease
	}
	return held
}

func namesText(t *Trial) {
	b := t.client("reader")
	ids, metadata := texts(backend.MaxID), texts(backend.MaxMetadata)
	metadata[0] = "line one\n\tline two\r\n\nend \n"
	for i := range ids {
		a := t.client(ids[i])
		a.candidate.Address, a.candidate.Metadata = texts(backend.MaxAddress)[i], metadata[i]
		name := fmt.Sprintf("jobs%d", i)
		held := a.win(name)
		read := b.read(name)
		require(equal("winner's answer", held.Holder, a.candidate), equal("reader's answer", read.Holder, a.candidate))

		a.announce()
		members := b.members(string(a.candidate.Nonce), 1)
		require(equal("members", len(members), 1))
		require(equal("member record", members[0].Candidate, a.candidate))

		b.request(backend.Request{Election: name, Term: held.Term, Kind: backend.Nominate, ID: ids[i]})
		a.release(backend.Released, held)
		read = b.read(name)
		require(equal("LastID", read.LastID, a.candidate.ID), equal("nominee", read.Request.ID, ids[i]))
	}
}

func namesPlanted(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	before := b.win("planted")
	t.inject(FaultPlantRecord, true, "planted")
	changed := a.observe(backend.Lease{Election: "planted"}, backend.Lease{Election: "jobs"})
	for _, l := range changed {
		if l.Election == "planted" && l.Holder == before.Holder {
			fail("expected the fault %s to change the record, got %+v: the harness's function does nothing", FaultPlantRecord, l)
		}
	}

	a.list("", 10)
	a.keep(held)
	isHeld := func(l backend.Lease) bool { return l.Election == "jobs" && l.Holder == a.candidate }
	require(expect(slices.ContainsFunc(changed, isHeld), "Observe to return the other election beside the planted one", fmt.Sprint(changed)))

	o := t.participant("observer", "planted", nil)
	t.sleep(t.TTL)
	for _, e := range o.events() {
		if e.Leader.ID == "" {
			continue
		}
		require(backend.CheckID(e.Leader.ID), backend.CheckText("address", e.Leader.Address, backend.MaxAddress, false),
			backend.CheckText("metadata", e.Leader.Metadata, backend.MaxMetadata, true))
	}
}
