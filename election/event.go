package election

import (
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Candidate is a process that can lead, with the address and metadata that it published. Treat the fields
// of other candidates as untrusted text.
type Candidate = backend.Candidate

// An Event reports a change in one election to a watcher.
type Event struct {
	Election string    // name of the election
	Kind     Kind      // the state, or Notice
	Leader   Candidate // the leader; zero unless Kind is Elected
	Previous Candidate // the leader before, as far as this process knows
	Term     uint64    // of Leader, or of the last leadership known
	Leading  bool      // Leader is this manager
	Reason   Reason    // why the leadership began or ended, or the subject of the notice
	Err      error     // the store's error, the lead function's error, or details of Reason; often nil
	Time     time.Time // when this process learned of it, by its own clock

	// First says that the watcher did not know the state before: it has just begun, or the store could not be
	// read until now. The state may be old, so it should not alert anybody; [backend.Record.Since] says how
	// old.
	First bool

	// Coalesced counts own leaderships that this watcher was too slow to receive: this event replaces the
	// elected and the lost event of each.
	Coalesced int
}

// A Kind is a state of an election, or Notice.
type Kind uint8

const (
	Unknown Kind = iota // the store cannot be reached or denies access, so the leader is not known
	Vacant              // nobody leads
	Elected             // Leader leads
	Notice              // the state has not changed; Reason names a problem
)

// String returns the kind in lower case.
func (k Kind) String() string {
	return [...]string{"unknown", "vacant", "elected", "notice"}[min(k, 3)]
}

// String returns one line that is safe to log.
func (e Event) String() string {
	s := fmt.Sprintf("%q %s", e.Election, e.Kind)
	if e.Kind == Elected {
		s += fmt.Sprintf(" %q term %d", e.Leader.ID, e.Term)
	}
	if e.Err == nil && string(e.Reason) == e.Kind.String() {
		return s // not "elected: elected"
	}
	return s + ": " + e.Why()
}

// Why says the reason in words, with the text of Err, safe to log.
func (e Event) Why() string {
	if e.Err != nil {
		return fmt.Sprintf("%s (%q)", e.Reason, e.Err)
	}
	switch {
	case e.Reason == ReasonVacant:
		return "the reason is not known"
	case e.Reason == ReasonCurrent && e.Kind == Unknown:
		return "the store has not been read yet"
	case e.Reason == ReasonCurrent:
		return "so it was at the start"
	}
	return string(e.Reason)
}

// A state is the present state of an election, in less memory than an [Event]. Once published,
// neither it nor the candidates it points to change.
type state struct {
	kind             Kind
	leading          bool
	reason           Reason
	term             uint64
	leader, previous *Candidate // nil: none
	err              error
	time             time.Time // set by the shell
}

// event returns the state as an event.
func (s *state) event(election string) Event {
	ev := Event{Election: election, Kind: s.kind, Term: s.term, Leading: s.leading, Time: s.time}
	ev.Reason, ev.Err = s.reason, s.err
	if s.leader != nil {
		ev.Leader = *s.leader
	}
	if s.previous != nil {
		ev.Previous = *s.previous
	}
	return ev
}

// is reports whether s is this state. The leader and the term count only if kind is Elected.
func (s *state) is(kind Kind, leader *Candidate, term uint64) bool {
	if s.kind != kind || kind != Elected {
		return s.kind == kind
	}
	return s.term == term && s.leader.Nonce == leader.Nonce && s.leader.ID == leader.ID
}

// last returns the present leader, or the last one known.
func (s *state) last() *Candidate {
	if s.kind == Elected {
		return s.leader
	}
	return s.previous
}

// A Reason says why a leadership began or ended, or what a notice is about. The texts are stable:
// metrics may use them as labels.
type Reason string

// Reasons of states. ReasonForgotten and ReasonMoved are told even if the election was vacant before.
const (
	ReasonCurrent     Reason = "current state"       // the first event of a watcher
	ReasonElected     Reason = "elected"             // the store granted the lease
	ReasonVacant      Reason = "vacant"              // nobody leads, for an unknown reason
	ReasonReleased    Reason = "released"            // the leader stepped down in order
	ReasonExpired     Reason = "expired"             // the leader did not renew for its TTL
	ReasonFailed      Reason = "failed"              // the leader ended or lost the lease: released for it
	ReasonDeposed     Reason = "deposed"             // an operator ended the leadership
	ReasonForgotten   Reason = "forgotten"           // an operator retired the election (Manager.Forget)
	ReasonUnreachable Reason = "store unreachable"   // the lease cannot be renewed, or the state not read
	ReasonRefused     Reason = "renewal refused"     // the lease is gone: taken, deleted, edited, failed over
	ReasonDeadline    Reason = "deadline passed"     // this process was stopped, or had no CPU, for too long
	ReasonMoved       Reason = "moved"               // moved to the store that Err names (backend/migration)
	ReasonResigned    Reason = "resigned"            // the program called Resign
	ReasonNominated   Reason = "nominated"           // elected as the nominee, or stepped down for one
	ReasonHealth      Reason = "health check failed" // Options.Health returned an error or hung
	ReasonPaused      Reason = "paused"              // the program called Pause
	ReasonReturned    Reason = "function returned"   // the lead function returned by itself
	ReasonLeft        Reason = "left"                // the program called Leave or Close
)

// Reasons of notices. ReasonDenied is also that of an Unknown state, and of a leadership that ended.
const (
	ReasonSameID   Reason = "same id"           // another live process uses this candidate's id
	ReasonWentBack Reason = "store went back"   // the store shows an older term: restored, or lost writes
	ReasonStuck    Reason = "function is stuck" // it ignores its context: no release or bid until it returns
	ReasonDenied   Reason = "store denied"      // an operator must correct credentials, rights or schema
	ReasonInvalid  Reason = "invalid"           // the store never accepts this candidate: campaigning ended
)

// newsAfter reports whether a vacancy for this reason is told though watchers know of the vacancy, for the
// reason before.
func (r Reason) newsAfter(before Reason) bool {
	return r != before && (r == ReasonMoved || r == ReasonForgotten)
}

// An EndError says why a leadership ended. It is the cause of the leadership's cancelled context.
type EndError struct {
	Election string
	Term     uint64
	Reason   Reason
	Err      error // the store's last error, or the lead function's; may be nil
}

// Error returns the election, the term, the reason and Err.
func (e *EndError) Error() string {
	s := fmt.Sprintf("election %q: leadership of term %d ended: %s", e.Election, e.Term, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *EndError) Unwrap() error { return e.Err }
