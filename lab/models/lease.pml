/* The lease on a store that does not expire leases itself: memory, MySQL (package election, "A
 * leadership"; docs/design/mysql.md).
 *
 * Shows: two candidates never act as leader at the same instant, whatever is delayed, lost, doubled,
 * paused or restarted, with leases of different TTLs, for runs of any length.
 *
 * Time is relative: every timer counts down to 0 or up to a bound. Terms and heartbeats are never reused.
 * So if a process remembers one, all that matters is whether it is still the row's: one bit, which the
 * next write clears. So there are few states and the search ends, although runs do not. Pauses need no
 * code: no process is ever obliged to act.
 *
 * -DLIVE: at some moment all faults end, and from then on every process acts at once. It shows: after that
 * moment a time without a leader lasts at most a TTL and a tick. */
#ifndef TTL0
#define TTL0 2
#endif
#ifndef TTL1
#define TTL1 2
#endif
#define TTL(i) ((i) % DEAD == 0 -> TTL0 : TTL1)
#define LONGEST (TTL0 > TTL1 -> TTL0 : TTL1)
#define N 2
#define DEAD 4 /* DEAD + i: an earlier incarnation of i, with another nonce */
#define NONE 9

/* The row (packages memory and mysql). */
byte holder = NONE;

/* A candidate (package election). OUT: no function runs. LEAD: it leads. DRAIN: it steps down in order,
 * and its function has not returned. LOST: it lost the lease, and its function has not returned. */
mtype = { OUT, LEAD, DRAIN, LOST };
mtype phase[N] = OUT;
byte until[N];              /* ticks until trust ends. Leading() means: phase is LEAD and until > 0 */
/* What the store may hold for it. DONE: it holds the lease, and its function has returned in order. */
mtype = { NOT, MAYBE, HELD, DONE };
mtype own[N] = NOT;
bit term[N];                /* its term is the row's */

/* Its call of the store, one at a time (package backend). A bid is a reading, then a GRANT pinned to
 * what was read. A release of an unknown term is FIND, then CLEAR. YES, NO: the answer. */
mtype = { IDLE, RENEW, BID, GRANT, RELEASE, FIND, CLEAR, YES, NO };
mtype call[N] = IDLE; mtype asked[N] = IDLE;
byte age[N];                /* ticks since the call was sent */
bit pin[N];                 /* the row still has what the call is pinned to */
mtype ghost = IDLE; byte whose; bit gpin; /* one doubled or late request */

/* What it observes: known; still the row's; free at once; for how long it was observed. And a pending
 * reading: still the row's; free. */
bit known[N]; bit same[N]; bit free[N]; byte since[N];
bit look[N]; bit lsame[N]; bit lfree[N];
#ifdef WATCH_FROM_SEND
bit asks[N]; byte lage[N];
#endif
bit done;                   /* what the store answered */

#ifdef LIVE
bit healed; byte gap; bit fresh[N]; /* all faults have ended; ticks without a leader since then; it has renewed in this tick */
#define FAULTY !healed
#define FRESH(i) fresh[i] = 1
#ifndef BOUND
#define BOUND (LONGEST + 1)
#endif
#define SAFE assert(gap <= BOUND)
#define NOTE(i)
#else
#define FAULTY 1
#define FRESH(i)
#ifdef REACH
byte last = NONE;
#define NOTE(i) assert(last == NONE || last == i); last = i
#define SAFE
#else
#define NOTE(i)
#define ACTS(i) (phase[i] != OUT && until[i] > 0) /* its function runs, and it trusts its lease */
#define SAFE assert(!(ACTS(0) && ACTS(1)))
#endif
#endif

#ifdef NO_COMPARE /* a bid compares the term but not the heartbeat */
#define STAYS(byrenewal) byrenewal
#else
#define STAYS(byrenewal) 0
#endif
/* A write has a fresh heartbeat: earlier readings are no longer the row's. */
inline written(i, byrenewal) {
  if
  :: STAYS(byrenewal)
  :: else ->
     same[i] = 0; free[i] = 0; since[i] = 0; lsame[i] = 0; lfree[i] = 0;
     if :: call[i] == BID || call[i] == GRANT || call[i] == CLEAR -> pin[i] = 0 :: else fi
  fi
}
inline writes(byrenewal) {
  written(0, byrenewal); written(1, byrenewal);
  if :: (ghost == GRANT || ghost == CLEAR) && !STAYS(byrenewal) -> gpin = 0 :: else fi
}
/* A grant or a release also ends the previous term. */
inline ended(i) {
  term[i] = 0;
  if :: call[i] == RENEW || call[i] == RELEASE || (call[i] == YES && asked[i] == BID) -> pin[i] = 0 :: else fi
}
inline becomes(who) {
  ended(0); ended(1); if :: ghost == RENEW || ghost == RELEASE -> gpin = 0 :: else fi;
  writes(0); holder = who
}
/* How the store executes a request (docs/design/mysql.md, "Statements"). */
inline store(kind, who, pinned) {
  done = 1;
  if
#ifdef REVIVES /* a renewal does not compare the holder */
  :: kind == RENEW && holder != who -> becomes(who)
#endif
  :: kind == RENEW && pinned -> writes(1)
  :: kind == GRANT && pinned -> becomes(who)
#ifdef RELEASE_BY_HOLDER /* a release compares the holder but not the term */
  :: kind == RELEASE && holder == who -> becomes(NONE)
#endif
  :: (kind == RELEASE || kind == CLEAR) && pinned -> becomes(NONE)
  :: else -> done = 0
  fi
}
inline idle(i) { call[i] = IDLE; asked[i] = IDLE; age[i] = 0; pin[i] = 0 }
inline sends(i, kind, pinned) { call[i] = kind; asked[i] = kind; age[i] = 0; pin[i] = pinned }
inline blind(i) { look[i] = 0; lsame[i] = 0; lfree[i] = 0 }
inline forget(i) { known[i] = 0; same[i] = 0; free[i] = 0; since[i] = 0; blind(i) }
#define AWAY(i) (own[i] == NOT || own[i] == MAYBE)

#ifdef TRUST_FROM_RECEIPT
#define TRUST(i) TTL(i)
#else
#define TRUST(i) (TTL(i) - age[i])
#endif
/* How long a challenger observes the lease: for the holder's TTL. */
#ifdef WATCH_OWN_TTL
#define WATCH(i) TTL(i)
#else
#define WATCH(i) (holder == NONE -> 0 : TTL(holder))
#endif
#ifdef RELEASE_BEFORE_STOP
#define STOPPED(i) (phase[i] == OUT || phase[i] == DRAIN)
#else
#define STOPPED(i) (phase[i] == OUT)
#endif

active [N] proctype candidate() {
  do
  /* It reads; the answer arrives later, or never. An unchanged lease needs no new reading. */
#ifdef WATCH_FROM_SEND
  :: d_step { AWAY(_pid) && phase[_pid] == OUT && !look[_pid] && !asks[_pid] -> asks[_pid] = 1; lage[_pid] = 0 }
  :: d_step { asks[_pid] && AWAY(_pid) && !look[_pid] && !same[_pid] -> asks[_pid] = 0;
#else
  :: d_step { AWAY(_pid) && phase[_pid] == OUT && !look[_pid] && !same[_pid] ->
#endif
       look[_pid] = 1; lsame[_pid] = 1; lfree[_pid] = (holder == NONE || holder == _pid);
       printf("candidate %d's reading is answered\n", _pid) }
  :: d_step { look[_pid] ->
       known[_pid] = 1; same[_pid] = lsame[_pid]; free[_pid] = lfree[_pid]; since[_pid] = 0;
#ifdef WATCH_FROM_SEND
       since[_pid] = lage[_pid];
#endif
       blind(_pid); printf("candidate %d begins to watch what it has read\n", _pid) }
  :: d_step { known[_pid] && holder == _pid && free[_pid] && same[_pid] && own[_pid] == NOT && call[_pid] == IDLE -> own[_pid] = MAYBE }

  /* It bids for a lease that is free or was observed for long enough. (If the lease has changed, the
   * bid fails, so the time of observation does not matter here.) */
  :: d_step { call[_pid] == IDLE && AWAY(_pid) && phase[_pid] == OUT && known[_pid] && (free[_pid] || !same[_pid] || since[_pid] >= WATCH(_pid)) ->
       sends(_pid, BID, same[_pid]); printf("candidate %d bids\n", _pid) }
  :: d_step { call[_pid] == BID ->
       if
#ifdef WON_IF_NAMED /* a candidate that finds itself in the row counts that as a grant */
       :: holder == _pid -> call[_pid] = YES; pin[_pid] = 1
#endif
       :: holder == _pid || pin[_pid] -> call[_pid] = GRANT; pin[_pid] = 1 /* its own leftover is granted again */
       :: else -> call[_pid] = NO
       fi }

  /* It renews while it leads or steps down in order, until its deadline. */
  :: d_step { call[_pid] == IDLE && (phase[_pid] == LEAD || phase[_pid] == DRAIN) && until[_pid] > 0 ->
       sends(_pid, RENEW, term[_pid]); printf("candidate %d sends a renewal\n", _pid) }
  /* It steps down in order: it stops leading, its function returns, and only then it releases. */
  :: d_step { FAULTY && phase[_pid] == LEAD -> phase[_pid] = DRAIN; printf("candidate %d steps down\n", _pid) }
  :: d_step { phase[_pid] == DRAIN -> phase[_pid] = OUT; own[_pid] = DONE; until[_pid] = 0; printf("candidate %d's function has returned\n", _pid) }
  :: d_step { phase[_pid] == LOST -> phase[_pid] = OUT; printf("candidate %d's function has returned, too late\n", _pid) }
  /* After a loss nothing is released before the deadline. */
  :: d_step { call[_pid] == IDLE && STOPPED(_pid) && (own[_pid] == DONE || own[_pid] == HELD && (phase[_pid] == DRAIN || until[_pid] == 0)) ->
       sends(_pid, RELEASE, term[_pid]); printf("candidate %d sends a release\n", _pid) }
  :: d_step { call[_pid] == IDLE && phase[_pid] == OUT && own[_pid] == MAYBE -> sends(_pid, FIND, 0) }
  :: d_step { call[_pid] == FIND ->
       if :: holder == _pid -> call[_pid] = CLEAR; pin[_pid] = 1 :: else -> call[_pid] = YES fi }

  /* A request arrives, or is doubled, or is lost. */
  :: d_step { call[_pid] == RENEW || call[_pid] == GRANT || call[_pid] == RELEASE || call[_pid] == CLEAR ->
       store(call[_pid], _pid, pin[_pid]);
       printf("the store %e of candidate %d: done %d\n", call[_pid], _pid, done);
       pin[_pid] = done && asked[_pid] == BID;
       call[_pid] = (done -> YES : NO); if :: !done || pin[_pid] == 0 && asked[_pid] != RENEW -> age[_pid] = 0 :: else fi; SAFE; done = 0 }
  :: d_step { (call[_pid] == RENEW || call[_pid] == GRANT || call[_pid] == RELEASE || call[_pid] == CLEAR) && ghost == IDLE && FAULTY ->
       ghost = call[_pid]; whose = _pid; gpin = pin[_pid]; printf("the %e of candidate %d is doubled\n", ghost, _pid) }
  :: d_step { FAULTY && call[_pid] != IDLE ->
       if :: asked[_pid] == BID -> own[_pid] = MAYBE :: else fi; idle(_pid); printf("candidate %d gives its call up\n", _pid) }

  /* The answer is received. */
  :: d_step { call[_pid] == YES && asked[_pid] == BID ->
       term[_pid] = pin[_pid]; own[_pid] = HELD; until[_pid] = TRUST(_pid); forget(_pid);
       if :: until[_pid] > 0 -> phase[_pid] = LEAD; NOTE(_pid); FRESH(_pid); printf("candidate %d LEADS for %d\n", _pid, until[_pid]) :: else fi;
       idle(_pid); SAFE; done = 0 }
  :: d_step { call[_pid] == YES && asked[_pid] == RENEW ->
       FRESH(_pid);
       if
       :: (phase[_pid] == LEAD || phase[_pid] == DRAIN) && until[_pid] > 0 && TRUST(_pid) > until[_pid] ->
          until[_pid] = TRUST(_pid); printf("candidate %d is renewed for %d\n", _pid, until[_pid])
       :: else
       fi; idle(_pid); SAFE; done = 0 }
  :: d_step { call[_pid] == NO && asked[_pid] == RENEW ->
       if :: phase[_pid] == LEAD || phase[_pid] == DRAIN -> phase[_pid] = LOST :: else fi; idle(_pid) }
  :: d_step { call[_pid] == NO && asked[_pid] == BID -> own[_pid] = NOT; idle(_pid) }
  :: d_step { (call[_pid] == YES || call[_pid] == NO) && (asked[_pid] == RELEASE || asked[_pid] == FIND) ->
       if :: phase[_pid] == OUT -> own[_pid] = NOT; until[_pid] = 0; term[_pid] = 0 :: else fi; idle(_pid) }

  /* It dies and restarts under another nonce. */
  :: d_step { FAULTY && (phase[_pid] != OUT || own[_pid] != NOT || call[_pid] != IDLE) ->
       phase[_pid] = OUT; own[_pid] = NOT; until[_pid] = 0; term[_pid] = 0; idle(_pid); forget(_pid);
       if :: holder == _pid -> holder = DEAD + _pid :: else fi;
       if :: ghost != IDLE && whose == _pid -> whose = DEAD + _pid :: else fi;
       printf("candidate %d dies and comes back\n", _pid) }
  od
}

active proctype network() {
  do
  :: d_step { ghost != IDLE -> store(ghost, whose, gpin); printf("the doubled %e of %d arrives: done %d\n", ghost, whose, done);
       ghost = IDLE; whose = 0; gpin = 0; SAFE; done = 0 }
  od
}

inline older(i) {
  if :: until[i] > 0 -> until[i]-- :: else fi;
  if :: until[i] == 0 && phase[i] == LEAD -> phase[i] = LOST; printf("candidate %d's deadline passes\n", i) :: else fi;
  if :: (asked[i] == RENEW || asked[i] == BID) && age[i] < TTL(i) -> age[i]++ :: else fi;
  if :: same[i] && !free[i] && since[i] < LONGEST -> since[i]++ :: else fi
#ifdef WATCH_FROM_SEND
  ; if :: (asks[i] || look[i]) && lage[i] < LONGEST -> lage[i]++ :: else fi
#endif
}
#ifdef LIVE
#define MAYBID(i) (AWAY(i) && phase[i] == OUT && known[i] && (free[i] || !same[i] || since[i] >= WATCH(i)))
#define DUE(i) (phase[i] == DRAIN || phase[i] == LOST || phase[i] == LEAD && !fresh[i] || phase[i] == OUT && (own[i] == DONE || own[i] == HELD && until[i] == 0))
#define BUSY(i) (call[i] != IDLE || look[i] || AWAY(i) && phase[i] == OUT && !same[i] || MAYBID(i) || DUE(i))
#define MAYTICK (!healed || ghost == IDLE && !BUSY(0) && !BUSY(1))
#else
#define MAYTICK 1
#endif
active proctype clock() {
  do
  :: d_step { MAYTICK -> older(0); older(1); printf("-- tick\n");
#ifdef LIVE
       fresh[0] = 0; fresh[1] = 0; if :: healed && phase[0] != LEAD && phase[1] != LEAD -> gap++ :: else gap = 0 fi;
#endif
       SAFE }
#ifdef LIVE
  :: d_step { !healed -> healed = 1; printf("all faults end\n") }
#endif
  od
}
