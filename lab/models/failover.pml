/* A failover that loses the last writes (package lease, "Restored and edited stores";
 * docs/design/mysql.md, "Failovers and volatile servers").
 *
 * Shows: if the old primary is fenced before the new one is promoted, a failover that loses any tail
 * of writes makes no second leader, even if leases have different TTLs, and if renewals, grants and
 * releases that were sent before the failover arrive after it.
 *
 * Two servers each have a copy of the row. Replication copies it at any moment, so the standby may be
 * behind by any number of writes. A request arrives at the server that is the primary at that time.
 * A candidate that remembers a term or a heartbeat has one bit for each server: is it still that of
 * the copy there? Time and the rest are as in lease.pml, except for what does not depend on servers:
 * a candidate releases as soon as it stops leading, and none is restarted.
 *
 * RETURNS: the service may return to the first server; the checks show under which conditions.
 * RESTART: instead, a server that does not keep every commit crashes and restarts. */
#ifndef TTL0
#define TTL0 1
#endif
#ifndef TTL1
#define TTL1 2
#endif
#define TTL(i) ((i) == 0 -> TTL0 : TTL1)
#define MAX (TTL0 > TTL1 -> TTL0 : TTL1) /* max_ttl, which is stored in the table */
#define N 2
#define NONE 9
#ifdef RETURNS
#define FLIPS 2
#else
#define FLIPS 1
#endif

/* The copies of the row: the holder, the server that wrote it last; whether they are equal. */
byte holder[2] = NONE; bit named[2]; bit equal = 1;
bit id; byte flips; byte calm; /* the primary; changes of the primary; ticks since the last change */

byte until[N];              /* it leads while this is above 0 */
byte term[N];               /* bit s: copy s has the term that it was granted last */
mtype = { IDLE, BID, GRANT, WON, RENEW, RENEWED, RELEASE };
mtype call[N] = IDLE; byte age[N];
byte pin[N];                /* bit s: copy s has what the call is pinned to */
mtype ghost = IDLE; bit whose; byte gpin; /* a doubled or late request */
bit look[N]; byte lsame[N]; bit lfree[N]; /* a pending reading; bit s: server s answered it, and its copy is unchanged; it was free */
byte same[N]; bit free[N]; byte since[N]; /* what it observes: bit s: unchanged; free at once; for how long */
byte s;

#ifdef REACH
byte last = NONE;
#define NOTE(i) if :: flips > 0 -> assert(last == NONE || last == i); last = i :: else fi
#define SAFE
#else
#define NOTE(i)
#define SAFE assert(!(until[0] > 0 && until[1] > 0))
#endif

#define HERE (1 << id)
#define THERE (1 << (1 - id))
#ifdef NO_IDENTITY          /* no rule compares the server that wrote the row */
#define OURS 1
#define VACANT_FREE
#define RENEW_ANYWHERE
#define GRANT_ANYWHERE
#define WATCH_ANYWHERE
#else
#define OURS (named[id] == id)
#endif
#if defined(RESTART) && !defined(CARELESS)
#define VERIFIED 1
#define SURE (OURS && !(flips > 0 && calm < MAX)) /* after an unclean restart every row counts as another server's for max_ttl, and earlier observations are void */
#else
#define VERIFIED 0
#define SURE OURS
#endif
#ifdef VACANT_FREE
#define FREE_NOW(i) (holder[id] == NONE || holder[id] == i && SURE)
#elif defined(LEFTOVER_ANYWHERE)
#define FREE_NOW(i) (holder[id] == NONE && SURE || holder[id] == i)
#else
#define FREE_NOW(i) ((holder[id] == NONE || holder[id] == i) && SURE)
#endif
#ifdef ROW_TTL
#define WATCH (holder[id] == NONE -> MAX : TTL(holder[id]))
#else
#define WATCH (!SURE || holder[id] == NONE -> MAX : TTL(holder[id]))
#endif
#ifdef RENEW_ANYWHERE
#define PINNED(mask) (mask & HERE)
#else
#define PINNED(mask) ((mask & HERE) && OURS)
#endif

/* A write on the primary has a fresh heartbeat. ends: it also ends the term. */
inline stale(i, ends) {
  same[i] = same[i] & THERE; if :: same[i] == 0 -> free[i] = 0; since[i] = 0 :: else fi;
  lsame[i] = lsame[i] & THERE; if :: lsame[i] == 0 -> lfree[i] = 0 :: else fi;
  if :: call[i] == BID || call[i] == GRANT || ends && call[i] != RENEWED -> pin[i] = pin[i] & THERE :: else fi;
  if :: ends -> term[i] = term[i] & THERE :: else fi
}
inline writes(ends) {
  stale(0, ends); stale(1, ends); equal = 0; named[id] = id;
  if :: ghost == GRANT || ends -> gpin = gpin & THERE :: else fi
}
/* How the primary executes a request (docs/design/mysql.md, "Statements"). */
inline store(kind, who, mask, ok) {
  ok = 1;
  if
  :: kind == RENEW && PINNED(mask) -> writes(0)
  :: kind == RELEASE && PINNED(mask) -> writes(1); holder[id] = NONE
  :: kind == GRANT && (mask & HERE) -> writes(1); holder[id] = who
  :: else -> ok = 0
  fi
}
inline idle(i) { call[i] = IDLE; age[i] = 0; pin[i] = 0 }
bit done;

active [N] proctype candidate() {
  do
  :: d_step { until[_pid] == 0 && !look[_pid] && (same[_pid] & HERE) == 0 ->
       look[_pid] = 1; lsame[_pid] = HERE; lfree[_pid] = FREE_NOW(_pid); printf("server %d answers candidate %d's reading\n", id, _pid) }
  :: d_step { look[_pid] -> same[_pid] = lsame[_pid]; free[_pid] = lfree[_pid]; since[_pid] = 0; look[_pid] = 0; lsame[_pid] = 0; lfree[_pid] = 0;
       printf("candidate %d begins to watch what it has read\n", _pid) }
  /* It bids: the call reads the row, compares it with the observed one, and overwrites exactly that row. */
  :: d_step { until[_pid] == 0 && call[_pid] == IDLE && same[_pid] != 0 && (free[_pid] || (same[_pid] & HERE) == 0 || since[_pid] >= WATCH) ->
       call[_pid] = BID; pin[_pid] = same[_pid]; printf("candidate %d bids\n", _pid) }
  :: d_step { call[_pid] == BID && ((pin[_pid] & HERE) || holder[id] == _pid && FREE_NOW(_pid)) -> call[_pid] = GRANT; pin[_pid] = HERE }
  /* It renews, or stops leading and releases. */
  :: d_step { until[_pid] > 0 && call[_pid] == IDLE -> call[_pid] = RENEW; pin[_pid] = term[_pid]; printf("candidate %d sends a renewal\n", _pid) }
  :: d_step { call[_pid] == IDLE && term[_pid] != 0 -> until[_pid] = 0; call[_pid] = RELEASE; pin[_pid] = term[_pid]; term[_pid] = 0;
       printf("candidate %d has ceased to lead, and sends a release\n", _pid) }
  /* A request arrives, or is doubled, or is lost. */
  :: d_step { call[_pid] == RENEW || call[_pid] == GRANT || call[_pid] == RELEASE ->
       store(call[_pid], _pid, pin[_pid], done); printf("server %d, %e of candidate %d: done %d\n", id, call[_pid], _pid, done);
       if
       :: done && call[_pid] == GRANT -> call[_pid] = WON; pin[_pid] = HERE
       :: done && call[_pid] == RENEW -> call[_pid] = RENEWED; pin[_pid] = 0
       :: !done && call[_pid] == RENEW -> until[_pid] = 0; idle(_pid)
       :: else -> idle(_pid)
       fi; done = 0 }
  :: d_step { (call[_pid] == RENEW || call[_pid] == GRANT || call[_pid] == RELEASE) && ghost == IDLE && pin[_pid] != 0 ->
       ghost = call[_pid]; whose = _pid; gpin = pin[_pid]; printf("the %e of candidate %d is doubled\n", ghost, _pid) }
  :: d_step { call[_pid] != IDLE -> idle(_pid); printf("candidate %d gives its call up\n", _pid) }
  /* The answer is received. */
  :: d_step { (call[_pid] == WON || call[_pid] == RENEWED && until[_pid] > 0) && age[_pid] < TTL(_pid) ->
       if :: call[_pid] == WON -> NOTE(_pid); term[_pid] = pin[_pid]; same[_pid] = 0; free[_pid] = 0; since[_pid] = 0; look[_pid] = 0; lsame[_pid] = 0; lfree[_pid] = 0 :: else fi;
       if :: TTL(_pid) - age[_pid] > until[_pid] -> until[_pid] = TTL(_pid) - age[_pid] :: else fi;
       printf("candidate %d LEADS for %d\n", _pid, until[_pid]); idle(_pid); SAFE }
  od
}

/* Replication: what matched the primary's copy now matches the standby's copy too. */
inline copied(i) {
  term[i] = (term[i] & HERE -> 3 : 0);
#ifdef WATCH_ANYWHERE
  same[i] = (same[i] & HERE -> 3 : 0); lsame[i] = (lsame[i] & HERE -> 3 : 0);
#else
  if :: !equal -> same[i] = same[i] & HERE; lsame[i] = lsame[i] & HERE :: else fi;
#endif
  if
#ifndef GRANT_ANYWHERE
  :: call[i] == BID || call[i] == GRANT -> if :: !equal -> pin[i] = pin[i] & HERE :: else fi
#endif
  :: else -> pin[i] = (pin[i] & HERE -> 3 : 0)
  fi
}
/* After the last failover: what only the other server has is lost. */
inline forget(i) {
  term[i] = term[i] & HERE; pin[i] = pin[i] & HERE; lsame[i] = lsame[i] & HERE; if :: lsame[i] == 0 -> lfree[i] = 0 :: else fi;
  same[i] = same[i] & HERE; if :: same[i] == 0 -> free[i] = 0; since[i] = 0 :: else fi
}
/* A server has a new identity: earlier readings from it are void. */
inline void(i) {
  same[i] = 0; free[i] = 0; since[i] = 0; lsame[i] = 0; lfree[i] = 0
}
inline renamed(i) { void(i); if :: call[i] == BID || call[i] == GRANT -> pin[i] = pin[i] & THERE :: else fi }
/* A server restarts without its last commits: it has what the standby's copy has. */
inline restored(i) {
  void(i); term[i] = (term[i] & THERE -> HERE : 0); pin[i] = (pin[i] & THERE -> HERE : 0);
  if :: call[i] == BID -> pin[i] = 0 :: else fi
}
#ifdef LATE                 /* the service returns no sooner than max_ttl after the failover */
#define CALM (calm == MAX)
#else
#define CALM 1
#endif
#ifdef FIRST_KEPT           /* the first failover loses nothing */
#define KEPT 1
#else
#define KEPT 0
#endif
#ifdef CAUGHT_UP            /* the service returns when the first server has all that the second has */
#define MAYRETURN (CALM && equal)
#else
#define MAYRETURN CALM
#endif
active proctype world() {
  do
  :: d_step { ghost != IDLE -> store(ghost, whose, gpin, done); printf("server %d, the doubled %e of %d: done %d\n", id, ghost, whose, done);
       ghost = IDLE; whose = 0; gpin = 0; done = 0 }
  :: d_step { flips < FLIPS && !equal ->
       copied(0); copied(1);
       if
#ifndef GRANT_ANYWHERE
       :: ghost == GRANT -> gpin = gpin & HERE
#endif
       :: else -> gpin = (gpin & HERE -> 3 : 0)
       fi;
       holder[1-id] = holder[id]; named[1-id] = named[id]; equal = 1; printf("server %d has all that server %d has\n", 1-id, id) }
#ifdef RESTART
  :: d_step { flips == 0 -> flips = 1; calm = 0; restored(0); restored(1); gpin = (gpin & THERE -> HERE : 0);
       holder[id] = holder[1-id]; holder[1-id] = NONE; equal = 0; printf("RESTART: server 0 has lost its last commits\n") }
#else
  :: d_step { flips == 0 && (!KEPT || equal) || flips == 1 && flips < FLIPS && MAYRETURN -> id = 1 - id; flips++; calm = 0;
#ifdef NEW_IDENTITY
       if :: flips == 2 -> named[id] = 1 - id; renamed(0); renamed(1); if :: ghost == GRANT -> gpin = gpin & THERE :: else fi :: else fi;
#endif
       if :: flips == FLIPS -> forget(0); forget(1); gpin = gpin & HERE; holder[1-id] = NONE; named[1-id] = 0; equal = 0 :: else fi;
       printf("FAILOVER: server %d is fenced, server %d is the primary\n", 1-id, id) }
#endif
  od
}
inline tick(i) {
  if :: until[i] > 0 -> until[i]-- :: else fi;
  if :: call[i] == BID || call[i] == GRANT || call[i] == WON || call[i] == RENEW || call[i] == RENEWED ->
        if :: age[i] < TTL(i) -> age[i]++ :: else fi :: else fi;
  if :: age[i] == TTL(i) && (call[i] == WON || call[i] == RENEWED) || call[i] == RENEWED && until[i] == 0 -> if :: call[i] == WON -> term[i] = pin[i] :: else fi; idle(i) :: else fi;
  if :: same[i] != 0 && !free[i] && since[i] < MAX -> since[i]++ :: else fi
}
active proctype clock() {
  do
  :: d_step { tick(0); tick(1); if :: calm < MAX && flips > 0 && (flips < FLIPS || VERIFIED) ->
       calm++; if :: calm == MAX && VERIFIED -> void(0); void(1); if :: call[0] == BID -> pin[0] = 0 :: else fi; if :: call[1] == BID -> pin[1] = 0 :: else fi :: else fi
       :: else fi; printf("-- tick\n") }
  od
}
