package election

import (
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Candidate is a process that can lead: its id, and the address and metadata
// that it chose to show. Everything in it but your own was written by others.
type Candidate = backend.Candidate

// An Event tells a watcher what it should know about one election.
type Event struct {
	Election string
	Kind     Kind
	Leader   Candidate // who leads; zero unless Kind is Elected
	Previous Candidate // who led before, as far as this process knows
	Term     uint64    // of Leader, or of the last leadership known
	Leading  bool      // Leader is this very manager
	Reason   Reason
	Err      error     // what the store said, where Reason is about an error; what the lead function returned; who has this id, where that is the reason
	Time     time.Time // when this process learned of it

	// First says that the watcher did not know the state before: it has just begun, or
	// the store could not be read. What the event tells may be long so, and is no
	// reason to ring. [backend.Record.Since] is the store's word on it.
	First bool

	// Coalesced counts own leaderships that this watcher never heard of because it was
	// too far behind: their pairs of elected and lost became part of this event.
	Coalesced int
}

// A Kind is what an event is about.
type Kind uint8

const (
	Unknown Kind = iota // the store cannot be reached: this process cannot tell who leads
	Vacant              // nobody leads
	Elected             // Leader leads
	Notice              // the state is unchanged; Reason says what should be looked at
)

// String returns the kind in lower case.
func (k Kind) String() string {
	return [...]string{"unknown", "vacant", "elected", "notice"}[min(k, 3)]
}

// String describes the event in one line that is safe to log.
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

// Why returns the reason, and what Err says of it, in words that are safe to log.
func (e Event) Why() string {
	if e.Err != nil {
		return fmt.Sprintf("%s (%q)", e.Reason, e.Err)
	}
	if e.Reason == ReasonVacant {
		return "the reason is not known"
	}
	return string(e.Reason)
}

// A state is what is kept of the event that told it: for each election, for as long as
// it lasts. Once told it is never changed, and neither are those that it points to.
type state struct {
	kind             Kind
	leading          bool
	reason           Reason
	term             uint64
	leader, previous *Candidate // nil: none
	err              error
	time             time.Time // set by the shell
}

// event returns the state as watchers know it.
func (s *state) event(election string) Event {
	ev := Event{Election: election, Kind: s.kind, Term: s.term, Leading: s.leading, Reason: s.reason, Err: s.err, Time: s.time}
	if s.leader != nil {
		ev.Leader = *s.leader
	}
	if s.previous != nil {
		ev.Previous = *s.previous
	}
	return ev
}

// is reports whether this is the state. Who leads, and the term, matter only if
// somebody does.
func (s *state) is(kind Kind, leader *Candidate, term uint64) bool {
	return s.kind == kind && (kind != Elected || s.leader.Nonce == leader.Nonce && s.leader.ID == leader.ID && s.term == term)
}

// last returns the last leader known.
func (s *state) last() *Candidate {
	if s.kind == Elected {
		return s.leader
	}
	return s.previous
}

// A Reason says why a leadership began or ended, or what a notice is about. Reasons
// are stable: metrics may use them as labels.
type Reason string

// Why the present state is what it is.
const (
	ReasonCurrent     Reason = "current state"     // the first event of a watcher
	ReasonElected     Reason = "elected"           // the lease was granted
	ReasonVacant      Reason = "vacant"            // nobody leads, and why is not known
	ReasonReleased    Reason = "released"          // the leader stepped down in order
	ReasonExpired     Reason = "expired"           // the leader did not renew for its TTL
	ReasonDeposed     Reason = "deposed"           // an operator ended the leadership
	ReasonForgotten   Reason = "forgotten"         // an operator retired the election ([Manager.Forget]); told even if it was vacant before
	ReasonUnreachable Reason = "store unreachable" // and so the lease could not be renewed, or nothing can be said
	ReasonRefused     Reason = "renewal refused"   // the store no longer has this lease: taken, deleted, edited, or failed over
	ReasonDeadline    Reason = "deadline passed"   // this process was stopped or starved past its deadline
	ReasonMoved       Reason = "moved"             // the election has moved to another store (package backend/migration); the event's Err names it. Such a vacancy is told even if the election was vacant before
	ReasonResigned    Reason = "resigned"          // Resign was called
	ReasonNominated   Reason = "nominated"         // stepped down for a nominee that is ready
	ReasonHealth      Reason = "health check failed"
	ReasonPaused      Reason = "paused"
	ReasonReturned    Reason = "function returned" // the lead function came back by itself
	ReasonLeft        Reason = "left"              // Leave or Close was called
)

// What a notice is about.
const (
	ReasonSameID   Reason = "same id"           // another live process uses this candidate's id
	ReasonWentBack Reason = "store went back"   // the store shows an older term than it did before: restored, or failed over with a loss
	ReasonStuck    Reason = "function is stuck" // the lead function ignores its cancelled context: no release, no new bid until it returns
	ReasonDenied   Reason = "store denied"      // somebody must act: credentials, rights, schema
	ReasonInvalid  Reason = "invalid"           // the store will never accept this candidacy; campaigning has ended
)

// newsAfter reports whether a vacancy for this reason is told though another was before.
func (r Reason) newsAfter(before Reason) bool {
	return r != before && (r == ReasonMoved || r == ReasonForgotten)
}

// A LostError is the cause of a leadership's cancelled context: use context.Cause.
type LostError struct {
	Election string
	Term     uint64
	Reason   Reason
	Err      error // what the store said last, or the lead function returned; or nil
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("election %q: leadership of term %d lost: %s", e.Election, e.Term, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *LostError) Unwrap() error { return e.Err }
