/* The protocol of package lease: a process holds lease X and other leases, and renews
 * them by one session. session.pml has a session for one lease; this model adds what several bring.
 *
 * Shows: never two leaders of X, though the session is also written without renewing X, may be deleted at
 * any moment, and may be made again by a late copy of the request that made it first.
 *
 * A challenger observes X's record, X's heartbeat in the session, and when the session was made. A bid reads
 * once more, and its grant requires record and session exactly as that reading showed them. Renewals require
 * the session as the holder's last write left it, and the record as it was granted: in the same step, or by a
 * reading after it (SPLIT). As in session.pml, a version that is never used again is one bit: is it still the
 * one that was read? */
#ifndef TTL
#define TTL 2
#endif
#define N 2
#define NONE 9

byte holder = NONE;          /* of X, as its record says */
bit edited;                  /* the record was edited or deleted by an operator: it names nobody, and is not free at once */
bit alive[N];                /* its session exists, under the generation of its last record */
byte until[N]; bit term[N];  /* ticks for which it trusts its lease; the record is still that of its term */
bit chain[N];                /* its session is as its last write left it */
mtype = { IDLE, BID, GRANT, WON, RENEW, VERIFY, RENEWED };
mtype call[N] = IDLE; byte age[N];
bit pin[N]; bit spin[N];     /* record and session are as the call requires them */
bit look[N]; bit lsame[N]; bit lfirst[N]; bit lrec[N]; /* a pending reading: unchanged; it shows the session's first heartbeat; the record is unchanged */
bit lasread[N]; bit asread[N];       /* the holder's session has the version that was read */
bit knows[N]; bit same[N]; bit first[N]; bit rec[N]; byte since[N]; /* what it observes, and for how many ticks it has */
bit firstnow; bit ghost;     /* the session has its first heartbeat; a copy of the request that made it is late */

#ifdef REACH
byte last = NONE;
#define NOTE(i) assert(last == NONE || last == i); last = i
#define SAFE
#else
#define NOTE(i)
#define SAFE assert(!(until[0] > 0 && until[1] > 0))
#endif
#ifdef GONE_FREES /* a lease whose session is gone is free at once */
#define FREE (holder == NONE && !edited || holder != NONE && !alive[holder])
#else
#define FREE (holder == NONE && !edited)
#endif
#ifdef NEWEST /* a bid requires the newest session, and not the heartbeat that was observed */
#define AS_OBSERVED(i) (rec[i] && holder != NONE && alive[holder])
#else
#ifdef STALE /* the reading of a bid may be old: that of its observation */
#define AS_OBSERVED(i) 1
#define PINS(i) pin[i] = rec[i]; spin[i] = asread[i]
#else
#define AS_OBSERVED(i) same[i]
#endif
#endif
#ifndef PINS
#define PINS(i) pin[i] = 1; spin[i] = 1
#endif
#ifdef RECORD_ONLY /* a grant does not require the session */
#define REQUIRED(i) pin[i]
#else
#define REQUIRED(i) (pin[i] && spin[i])
#endif

/* The heartbeat of X has changed, or the session is another one. */
inline unseen() { same[0] = 0; same[1] = 0; lsame[0] = 0; lsame[1] = 0 }
/* The session was written, by whatever. */
inline written(who) {
  asread[0] = 0; asread[1] = 0; lasread[0] = 0; lasread[1] = 0;
  if :: call[1-who] == GRANT && holder == who -> spin[1-who] = 0 :: else fi
}
/* The record was written. */
inline changes(who) {
#ifdef SESSION_OBSERVED /* what is observed is the session: a new record does not begin it anew */
  if :: holder == NONE || who == NONE -> unseen() :: else fi;
#else
  unseen();
#endif
  rec[0] = 0; rec[1] = 0; lrec[0] = 0; lrec[1] = 0;
  term[0] = 0; term[1] = 0; pin[0] = 0; pin[1] = 0;
  asread[0] = 0; asread[1] = 0; lasread[0] = 0; lasread[1] = 0; holder = who; edited = 0; ghost = 0; firstnow = 0
}
#define RESET(i) call[i] = IDLE; age[i] = 0; pin[i] = 0; spin[i] = 0

active [N] proctype candidate() {
  do
  :: d_step { until[_pid] == 0 && call[_pid] == IDLE && !look[_pid] && !term[_pid] -> look[_pid] = 1; lsame[_pid] = 1; lrec[_pid] = 1; lasread[_pid] = 1; lfirst[_pid] = firstnow; printf("candidate %d's reading is answered\n", _pid) }
  :: d_step { look[_pid] && call[_pid] == IDLE ->
       if
       :: knows[_pid] && same[_pid] && lsame[_pid] -> asread[_pid] = lasread[_pid] /* it goes on observing */
       :: else -> since[_pid] = 0; same[_pid] = lsame[_pid]; rec[_pid] = lrec[_pid]; first[_pid] = lfirst[_pid]; asread[_pid] = lasread[_pid]
       fi;
       knows[_pid] = 1; look[_pid] = 0; lsame[_pid] = 0; lrec[_pid] = 0; lasread[_pid] = 0; lfirst[_pid] = 0; printf("candidate %d has read, and has observed for %d\n", _pid, since[_pid]) }
  /* The bid reads once more. */
  :: d_step { until[_pid] == 0 && call[_pid] == IDLE && knows[_pid] && !term[_pid] && (FREE || AS_OBSERVED(_pid) && since[_pid] == TTL) ->
       call[_pid] = GRANT; age[_pid] = 0; PINS(_pid); knows[_pid] = 0; printf("candidate %d bids\n", _pid) }
  :: d_step { call[_pid] == GRANT ->
       if
       :: REQUIRED(_pid) -> changes(_pid); alive[_pid] = 1; chain[_pid] = 1; term[_pid] = 1; call[_pid] = WON; pin[_pid] = 1; firstnow = 1; ghost = 1; printf("X is granted to candidate %d\n", _pid)
       :: else -> RESET(_pid); printf("candidate %d is refused\n", _pid)
       fi }
  :: d_step { until[_pid] > 0 && call[_pid] == IDLE && term[_pid] -> call[_pid] = RENEW; pin[_pid] = 1; spin[_pid] = chain[_pid]; printf("candidate %d sends a renewal\n", _pid) }
  :: d_step { until[_pid] > 0 && call[_pid] == IDLE && !term[_pid] -> call[_pid] = RENEW; spin[_pid] = chain[_pid]; printf("candidate %d sends a renewal of what it has lost\n", _pid) }
  :: d_step { call[_pid] == RENEW ->
       if
#ifdef SPLIT
       :: spin[_pid] && chain[_pid] && alive[_pid] -> if :: holder == _pid -> unseen(); written(_pid); firstnow = 0 :: else fi; call[_pid] = VERIFY
#else
       :: pin[_pid] && spin[_pid] && chain[_pid] && alive[_pid] -> if :: holder == _pid -> unseen(); written(_pid); firstnow = 0 :: else fi; call[_pid] = RENEWED
#endif
       :: else -> RESET(_pid); printf("the renewal of candidate %d is refused\n", _pid)
       fi }
#ifdef NO_VERIFY
  :: d_step { call[_pid] == VERIFY -> call[_pid] = RENEWED }
#else
  :: d_step { call[_pid] == VERIFY && pin[_pid] -> call[_pid] = RENEWED; printf("a reading shows that candidate %d still has its record\n", _pid) }
#endif
  :: d_step { call[_pid] == VERIFY && !pin[_pid] -> until[_pid] = 0; RESET(_pid); printf("a reading shows that candidate %d has lost its record\n", _pid) }
  /* It renews other leases by the same session, and not X. */
  :: d_step { holder == _pid && alive[_pid] && chain[_pid] && call[_pid] != RENEW -> written(_pid); printf("candidate %d writes its session without renewing X\n", _pid) }
  /* Its session is gone: it makes another one, and writes the record with its generation. */
  :: d_step { term[_pid] && holder == _pid && !alive[_pid] && call[_pid] == IDLE && until[_pid] > 0 -> changes(_pid); alive[_pid] = 1; chain[_pid] = 1; term[_pid] = 1; call[_pid] = WON; pin[_pid] = 1; firstnow = 1; ghost = 1; printf("candidate %d makes its session again and moves X\n", _pid) }
  :: d_step { call[_pid] == IDLE && term[_pid] && holder == _pid -> until[_pid] = 0; changes(NONE); printf("candidate %d has ceased to lead and releases X\n", _pid) }
  :: d_step { call[_pid] != IDLE -> RESET(_pid); printf("candidate %d gives its call up\n", _pid) }
  :: d_step { (call[_pid] == WON || call[_pid] == RENEWED && until[_pid] > 0) && age[_pid] < TTL ->
       if :: call[_pid] == WON -> NOTE(_pid); knows[_pid] = 0; since[_pid] = 0; look[_pid] = 0 :: else fi;
       if :: TTL - age[_pid] > until[_pid] -> until[_pid] = TTL - age[_pid] :: else fi;
       printf("candidate %d LEADS for %d\n", _pid, until[_pid]); RESET(_pid); SAFE }
  od
}
active proctype world() {
  do
  :: d_step { holder != NONE -> changes(NONE); edited = 1; printf("an operator edits the record\n") }
  :: d_step { holder != NONE && alive[holder] -> alive[holder] = 0; chain[holder] = 0; unseen(); written(holder); firstnow = 0; printf("the session of candidate %d is deleted\n", holder) }
  /* Nobody has written it since, so it has its first heartbeat again, under another time of creation. */
  :: d_step { holder != NONE && !alive[holder] && ghost -> alive[holder] = 1; chain[holder] = 1; written(holder); ghost = 0; firstnow = 1;
#ifdef NO_CREATED
       same[0] = first[0] && rec[0]; same[1] = first[1] && rec[1];
#endif
       printf("a late copy makes the session of candidate %d again\n", holder) }
  od
}
inline tick(i) {
  if :: until[i] > 0 -> until[i]-- :: else fi;
  if :: call[i] != IDLE && age[i] < TTL -> age[i]++ :: else fi;
  if :: knows[i] && since[i] < TTL -> since[i]++ :: else fi
}
active proctype clock() {
  do
  :: d_step { tick(0); tick(1); printf("-- tick\n") }
  od
}
