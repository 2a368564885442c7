package election

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// simItems is a store of versioned items. Its table fails over and goes back like that of servers.
type simItems struct {
	st       *simStore
	batch    int     // room of a change
	tells    telling // whether Listen is told of changes
	operator *lease.Backend

	epoch      string
	counter    uint64 // of writes
	connection int    // requests of an earlier one do not arrive
	table      map[lease.Key]simItem
	replica    map[lease.Key]simItem
	count      uint64      // the replica's counter
	behind     []itemWrite // writes that the replica lacks, oldest first
	restored   bool        // it went back in the same epoch, which happens once in a world

	log       []lease.Item // the latest changes, for Listen
	logFrom   uint64
	signalled uint64 // the counter when the last signal came

	listeners []itemsListener
	former    [len(names)]*lease.Record // some earlier records, for an operator who puts one back
}

type itemsListener struct {
	position uint64
	reply    func(itemsAnswer)
}

type telling uint8

const (
	silent telling = iota
	byItems
	bySignal // it says only that something has changed, for changes for which somebody waits
)

// A simItem is an item as the store keeps it. Values are never modified, so two of the same write have the same address.
type simItem struct {
	value            lease.Value
	version, created uint64
	at               time.Duration // by the store's clock
	edited           bool
}

type itemWrite struct {
	at      time.Duration
	key     lease.Key
	counter uint64
	now     simItem // zero: deleted
}

func newSimItems(st *simStore) *simItems {
	it := &simItems{st: st, table: map[lease.Key]simItem{}, replica: map[lease.Key]simItem{}}
	it.batch = []int{4, 8, 40}[st.s.random.IntN(3)]
	it.tells = []telling{silent, byItems, byItems, bySignal}[st.s.random.IntN(4)]
	it.operator = lease.New(&simDriver{items: it})
	it.setEpoch()
	return it
}

// driver returns the driver as package lease sees it.
func (it *simItems) driver(d *simDriver) lease.Driver {
	if it.tells == silent {
		return d
	}
	return tellingDriver{d}
}

// setEpoch sets the identity of the server, and of its run if it may lose writes when it restarts.
func (it *simItems) setEpoch() { it.epoch = fmt.Sprintf("s%d.%d", it.st.primary, it.st.restarts) }

func text(n uint64) string { return strconv.FormatUint(n, 10) }

func (it *simItems) item(k lease.Key) (lease.Item, uint64) {
	e := it.table[k]
	if e.version == 0 {
		return lease.Item{Key: k}, 0
	}
	return lease.Item{Key: k, Version: text(e.version), Created: text(e.created), Order: e.version, Value: e.value, Edited: e.edited, Age: max(0, it.st.clock()-e.at)}, e.version
}

func record(election string) lease.Key { return lease.Key{Kind: lease.Records, Name: election} }

// meta is the key of the meta item.
var meta = lease.Key{Kind: lease.Metas}

func (it *simItems) record(election string) *lease.Record {
	r, _ := it.table[record(election)].value.(*lease.Record)
	return r
}

func (it *simItems) records() (n int64) {
	for _, name := range names[:it.st.s.elections] {
		if it.table[record(name)].version > 0 {
			n++
		}
	}
	return n
}

func (it *simItems) read(keys []lease.Key) (a itemsAnswer) {
	a.view.Items, a.versions = make([]lease.Item, len(keys)), make([]uint64, len(keys))
	for i, k := range keys {
		a.view.Items[i], a.versions[i] = it.item(k)
	}
	a.view.Epoch, a.view.Records = it.epoch, it.records()
	a.counter = it.counter
	a.view.Position = it.position()
	return a
}

// keys returns up to limit keys of a kind, in the order of their names.
func (it *simItems) keys(kind lease.Kind, from string, limit int) (keys []lease.Key) {
	for k := range it.table {
		if k.Kind == kind && k.Name >= from {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b lease.Key) int { return strings.Compare(a.Name, b.Name) })
	return keys[:min(len(keys), limit)]
}

func (it *simItems) write(d *simDriver, epoch string, changes []lease.Change, verify []lease.Item) (a itemsAnswer) {
	a.counter = it.counter
	if epoch != it.epoch {
		a.err = lease.ErrEpoch
		return a
	}
	for i := range changes {
		a.written.Results = append(a.written.Results, it.apply(d, &changes[i]))
	}
	for i := range verify {
		if now := it.table[verify[i].Key]; now.version == 0 && verify[i].Version != "" || now.version > 0 && text(now.version) != verify[i].Version {
			a.written.Stale = append(a.written.Stale, i)
		}
	}
	a.counter = max(a.counter, it.counter)
	return a
}

func (it *simItems) isAs(was *lease.Item) bool {
	e := it.table[was.Key]
	if e.version == 0 || was.Version == "" {
		return e.version == 0 && was.Version == ""
	}
	return text(e.version) == was.Version && (!was.Remembered || was.Value == nil || was.Value == e.value || lease.Encode(was.Value) == lease.Encode(e.value))
}

func (it *simItems) apply(d *simDriver, c *lease.Change) (r lease.Result) {
	if len(c.Check)+len(c.Put) > it.batch {
		return lease.Result{Err: fmt.Errorf("%w: a change of %d items", backend.ErrInvalid, len(c.Check)+len(c.Put))}
	}
	for i := range c.Check {
		if !it.isAs(&c.Check[i]) {
			return lease.Result{Outcome: backend.Refused}
		}
	}
	for i := range c.Put {
		over := &c.Put[i].Over
		if over.Kind == lease.Records && it.st.isLocked(over.Name) {
			return lease.Result{Err: errLocked}
		}
		if !it.isAs(over) {
			return lease.Result{Outcome: backend.Refused}
		}
	}
	r.Outcome = backend.Granted
	for i := range c.Put {
		p := &c.Put[i]
		if p.Over.Kind == lease.Records {
			it.check(d, p)
		}
		it.put(p.Over.Key, simItem{value: p.Value})
		it.tell(c.Notify)
		item, _ := it.item(p.Over.Key)
		item.Value = nil
		r.Items = append(r.Items, item)
	}
	return r
}

// check checks the rules of the world before a record is written.
func (it *simItems) check(d *simDriver, p *lease.Put) {
	s, before := it.st.s, it.record(p.Over.Name)
	if s.oneIn(10) {
		it.former[p.Over.Name[0]-'0'] = before
	}
	after, _ := p.Value.(*lease.Record)
	if before == nil {
		before = &lease.Record{}
	}
	switch {
	case d.node == nil:
	case after.Nonce != "" && (after.Nonce != before.Nonce || after.Term != before.Term):
		s.checkGrant(d.node, d.life, p.Over.Name)
		s.figures.grants++
		if s.tracing {
			s.trace("store", "grants %s to %s in term %d over %s, epoch %s", p.Over.Name, after.Nonce, after.Term, p.Over.Version, it.epoch)
		}
	case after.Nonce == "" && before.Nonce == string(d.node.nonce) && before.Nonce != "":
		s.checkRelease(d.node, d.life, &backend.Held{Election: p.Over.Name, Term: before.Term})
		if s.tracing {
			s.trace("store", "%s is vacant after term %d of %s: %s", p.Over.Name, before.Term, before.Nonce, after.End)
		}
	}
}

func (it *simItems) put(k lease.Key, e simItem) {
	it.counter++
	if e.value == nil {
		delete(it.table, k)
		e = simItem{}
	} else {
		e.version, e.created, e.at = it.counter, it.counter, it.st.clock()
		if was, ok := it.table[k]; ok {
			e.created = was.created
		}
		it.table[k] = e
	}
	it.commit(k, e)
	if it.tells == byItems {
		told, _ := it.item(k)
		told.Order = it.counter
		if it.log = append(it.log, told); len(it.log) > 400 {
			it.logFrom = it.log[199].Order
			it.log = slices.Delete(it.log, 0, 200)
		}
	}
}

// position is that of the last change that was told.
func (it *simItems) position() uint64 {
	switch it.tells {
	case byItems:
		return it.counter
	case bySignal:
		return it.signalled
	}
	return 0
}

// tell tells listeners of a write, or rings if somebody waits for it.
func (it *simItems) tell(signals bool) {
	if it.tells == silent || it.tells == bySignal && !signals {
		return
	}
	it.signalled = it.counter
	listeners := it.listeners
	it.listeners = nil
	for _, l := range listeners {
		if !it.st.s.calm && it.st.s.oneIn(5) { // later, with what comes then
			it.listeners = append(it.listeners, l)
		} else {
			l.reply(it.since(l.position))
		}
	}
}

// listen replies when there is something to tell.
func (it *simItems) listen(position uint64, reply func(itemsAnswer)) {
	if position == it.position() {
		it.listeners = append(it.listeners, itemsListener{position, reply})
		return
	}
	reply(it.since(position))
}

// since is what Listen is told: all changes after a position, or nothing if the store cannot tell.
func (it *simItems) since(position uint64) (a itemsAnswer) {
	a.counter, a.view.Position = it.counter, it.position()
	if position < it.logFrom || position > it.position() {
		return a
	}
	a.goesOn = true
	if it.tells == byItems {
		i, _ := slices.BinarySearchFunc(it.log, position+1, func(i lease.Item, at uint64) int { return int(i.Order) - int(at) })
		a.told = slices.Clone(it.log[i:])
	}
	return a
}

func (it *simItems) termOf(election string) uint64 {
	if r := it.record(election); r != nil {
		return r.Term
	}
	return 0
}

func (it *simItems) request(w backend.Request) error {
	if w.Term == 0 {
		return backend.ErrStale
	}
	return it.operator.Request(context.Background(), []backend.Request{w})
}
