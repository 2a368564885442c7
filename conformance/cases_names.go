package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
)

var nameCases = []Case{
	{Rule: "S15", Name: "different names are different elections", calls: namesExact,
		Says: "The store compares names byte by byte: two different names are two elections, whatever " +
			"case, accents, spaces or slashes they contain."},
	{Rule: "S15", Name: "text is returned byte for byte", calls: namesText,
		Says: "Ids, addresses and metadata up to their limits are kept byte for byte, also ids in requests."},
	{Rule: "S15", Name: "hostile text in a record harms no election", calls: namesPlanted,
		Fault: FaultPlantRecord,
		Says:  "A record of an attacker's hostile text is read as clean, and affects no other election."},
}

// names returns election names that a careless store would confuse.
func names() []string {
	list := []string{
		"a", "A", "a ", " a", "a  ", "a.", "a/", "a//", "/a", "a/b", "a//b", "a/B", "a\\b", "a\\\\b", "A/B",
		"\u00e1", "a\u0301", "\u00c1", "\u00e4", "\u00e6", "ae", "\u00df", "ss", "\u0131", "i", "I", "\u0130",
		"\u212a", "k", "K", "\uff41", "\u0430", // Kelvin; full-width and Cyrillic a
		"..", ".", "../x", "x", "./x", "%", "%a", "a%", "_", "_a", "%61", "a%2fb", "*", "?", "[a]", "{a}",
		"${a}", "#", "~", "$", "'", "''", "\"", "`", ";", "--", "' OR '1'='1", "a'; DROP TABLE election; --",
		"\\", "\\'", "\\0", "\\x00", "$1 {payload} {table} ?",
		"0", "00", "0.0", "-0", "1", "1e0", "+1", "null", "NULL", "nil", "true", "<a>", "&amp;",
		"\U0001F600", "\U0001F44D", "\U0001F44D\U0001F3FD", "\u65e5\u672c", "\u0645",
		"a\u00a0b", "a b", "election", "lock-0000000001", "a:b", "a=b", "a,b", "a|b",
	}
	long := strings.Repeat("n", backend.MaxName-1)
	two, four := strings.Repeat("\u00e9", 127), strings.Repeat("\U0001F600", 63) // bytes in each character
	return append(list, long+"1", long+"2", long, two+"x", four+"abc")
}

// texts returns one-line texts of up to max bytes that a careless store would change.
func texts(max int) []string {
	return []string{
		"x", " x ", "X", "\u00e1", "a\u0301", "\U0001F600", "'", "\"", "\\", "\\n", "%s%d", "`", "a/b",
		"../x", "<script>", "${x}", "{\"a\":1}", "NULL", "a#b", "a|b,c;d", "' OR 1=1 --",
		strings.Repeat("m", max), strings.Repeat("\u00e9", max/2),
	}
}

func namesExact(t *Trial, a, b *client) {
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
	require(equal(len(now), len(held), "leases read"), equal(len(records), len(held), "records"))
	for _, l := range now {
		want := held[l.Election]
		require(equal(l.Term, want.Term, "term of %q", l.Election),
			equal(l.Holder, want.Holder, "holder of %q", l.Election))
		if t.Virtual { // on a busy machine a session may end, and its leases may continue in another one
			require(equal(l.Version, want.Version, "Version of %q", l.Election))
		}
	}
	for i, name := range slices.Sorted(maps.Keys(held)) {
		require(equal(records[i].Election, name, "record %d", i))
	}
}

// winAll acquires all these free leases in one call.
func (c *client) winAll(names ...string) map[string]backend.Lease {
	for _, name := range names {
		require(backend.CheckName(name))
	}
	held := map[string]backend.Lease{}
	for i, got := range c.acquire(c.bidsFor(names...)...) {
		require(equal(got.Outcome, backend.Granted, "outcome of a bid for %q (%v)", names[i], got.Err),
			equal(got.Election, names[i], "name in its answer"))
		held[names[i]] = got.Lease
	}
	return held
}

func namesText(t *Trial, _, b *client) {
	ids, metadata := texts(backend.MaxID), texts(backend.MaxMetadata)
	metadata[0] = "line one\n\tline two\r\n\nend \n"
	for i := range ids {
		a := t.client(ids[i])
		a.candidate.Address, a.candidate.Metadata = texts(backend.MaxAddress)[i], metadata[i]
		name := fmt.Sprintf("jobs%d", i)
		held := a.win(name)
		require(equal(held.Holder, a.candidate, "winner's answer"),
			equal(b.read(name).Holder, a.candidate, "reader's answer"))

		a.announce()
		members := b.members(string(a.candidate.Nonce), 1)
		require(equal(len(members), 1, "members"))
		require(equal(members[0].Candidate, a.candidate, "member record"))

		b.request(backend.Request{Election: name, Term: held.Term, Kind: backend.Nominate, ID: ids[i]})
		a.release(backend.Released, held)
		read := b.read(name)
		require(equal(read.LastID, a.candidate.ID, "LastID"), equal(read.Request.ID, ids[i], "nominee"))
	}
}

func namesPlanted(t *Trial, a, b *client) {
	held := a.win("jobs")
	before := b.win("planted")
	t.inject(FaultPlantRecord, true, "planted")
	changed := a.observe(zero("planted"), zero("jobs"))
	for _, l := range changed {
		planted := l.Election != "planted" || l.Holder != before.Holder
		require(expect(planted, l, "the harness's fault %s to change the record", FaultPlantRecord))
	}

	a.list("", 10)
	a.keep(held)
	isHeld := func(l backend.Lease) bool { return l.Election == "jobs" && l.Holder == a.candidate }
	shown := slices.ContainsFunc(changed, isHeld)
	require(expect(shown, fmt.Sprint(changed), "Observe to return the other election beside the planted one"))

	o := t.participant("observer", "planted", nil)
	t.sleep(t.TTL)
	for _, e := range o.events() {
		if e.Leader.ID == "" {
			continue
		}
		require(backend.CheckID(e.Leader.ID),
			backend.CheckText("address", e.Leader.Address, backend.MaxAddress, false),
			backend.CheckText("metadata", e.Leader.Metadata, backend.MaxMetadata, true))
	}
}
