/* Clocks that jump: the store's, and that of a suspended machine (package election, "A leadership" and
 * clock.go).
 *
 * Shows: no number of jumps of the store's clock, in either direction, makes two leaders or leaves an
 * election without a leader for longer than a TTL; neither do suspended machines. The implemented rule
 * reads no clock of the store. The twins show what reading it would cost: if the clock goes back an
 * hour, no candidate can take over for an hour.
 *
 * The lease is that of lease.pml without doubled requests, releases and restarts. -DLIVE: at some
 * moment all faults end, except that one candidate may stay suspended, and from then on the other acts
 * at once. The search looks for a time without a leader that is longer than a TTL and a tick. */
#ifndef TTL
#define TTL 3
#endif
#define FAR 5                 /* ticks that stand for hours: more than a TTL and a tick */
#define N 2
#define NONE 9

byte holder = NONE;
byte left;                    /* expires_at of the row less the store's clock */
byte until[N];                /* it trusts its lease while this is above 0 */
mtype = { IDLE, RENEW, RENEWED, BID, WON }; /* its call, or the pending answer */
mtype call[N] = IDLE; byte age[N]; bit pin[N];
bit look[N]; bit lsame[N]; bit same[N]; byte since[N];
bit asleep[N];                /* its machine is suspended: nothing runs, and CLOCK_MONOTONIC stands still */
bit jumped;

#define LEADS(i) (until[i] > 0 && !asleep[i])
#ifdef LIVE
bit healed; byte gap; bit fresh[N]; /* all faults have ended; ticks without a leader since then; it has renewed in this tick */
#define FAULTY !healed
#define SAFE assert(gap <= TTL + 1)
#else
#define FAULTY 1
#endif
#ifdef REACH
byte last = NONE;
#define NOTE(i) if :: jumped -> assert(last == NONE || last == i); last = i :: else fi
#define SAFE
#else
#define NOTE(i)
#endif
#ifndef SAFE
#define SAFE assert(!(LEADS(0) && LEADS(1)))
#endif

#if defined(CLOCK_ALONE)
#define FREE(i) (left == 0)
#elif defined(CLOCK_AND_WATCH)
#define FREE(i) (left == 0 && since[i] == TTL)
#else
#define FREE(i) (since[i] == TTL)
#endif
#if defined(CLOCK_ALONE) || defined(CLOCK_AND_WATCH)
#define ALIVE (left > 0)      /* the store refuses to renew an expired lease */
#else
#define ALIVE 1
#endif

inline writes() {
  same[0] = 0; same[1] = 0; lsame[0] = 0; lsame[1] = 0; since[0] = 0; since[1] = 0; left = TTL;
  if :: call[0] == BID -> pin[0] = 0 :: else fi;
  if :: call[1] == BID -> pin[1] = 0 :: else fi
}
inline idle(i) { call[i] = IDLE; age[i] = 0; pin[i] = 0 }
#define MAYBID(i) (until[i] == 0 && call[i] == IDLE && same[i] && (holder == NONE || holder == i || FREE(i)))
#define MAYLOOK(i) (until[i] == 0 && call[i] == IDLE && !look[i] && !same[i])

active [N] proctype candidate() {
  do
  :: d_step { !asleep[_pid] && MAYLOOK(_pid) -> look[_pid] = 1; lsame[_pid] = 1; printf("candidate %d's reading is answered\n", _pid) }
  :: d_step { !asleep[_pid] && look[_pid] -> look[_pid] = 0; same[_pid] = lsame[_pid]; lsame[_pid] = 0; since[_pid] = 0;
       printf("candidate %d begins to watch what it has read\n", _pid) }
  :: d_step { !asleep[_pid] && MAYBID(_pid) ->
       call[_pid] = BID; pin[_pid] = 1; same[_pid] = 0; since[_pid] = 0; printf("candidate %d bids\n", _pid) }
  :: d_step { call[_pid] == BID && pin[_pid] -> writes(); holder = _pid; call[_pid] = WON; pin[_pid] = 0; printf("the store grants candidate %d\n", _pid) }
  :: d_step { !asleep[_pid] && until[_pid] > 0 && call[_pid] == IDLE -> call[_pid] = RENEW; printf("candidate %d sends a renewal\n", _pid) }
  :: d_step { call[_pid] == RENEW && holder == _pid && ALIVE -> writes(); call[_pid] = RENEWED; printf("the store renews candidate %d\n", _pid) }
  :: d_step { call[_pid] == RENEW && !(holder == _pid && ALIVE) -> until[_pid] = 0; idle(_pid); printf("candidate %d is refused\n", _pid) }
  :: d_step { !asleep[_pid] && (call[_pid] == WON || call[_pid] == RENEWED && until[_pid] > 0) && age[_pid] < TTL ->
       if :: call[_pid] == WON -> NOTE(_pid) :: else fi;
       if :: TTL - age[_pid] > until[_pid] -> until[_pid] = TTL - age[_pid] :: else fi;
#ifdef LIVE
       fresh[_pid] = 1;
#endif
       printf("candidate %d LEADS for %d\n", _pid, until[_pid]); look[_pid] = 0; lsame[_pid] = 0; same[_pid] = 0; since[_pid] = 0; idle(_pid); SAFE }
  :: d_step { call[_pid] != IDLE && (FAULTY || call[_pid] == BID && !pin[_pid] || call[_pid] == RENEWED && until[_pid] == 0 || asleep[_pid] || age[_pid] == TTL) -> idle(_pid); printf("candidate %d's call ends without an answer\n", _pid) }
  :: d_step { FAULTY && !asleep[_pid] -> asleep[_pid] = 1; printf("candidate %d's machine is suspended\n", _pid) }
  :: d_step { asleep[_pid] && FAULTY -> asleep[_pid] = 0; printf("candidate %d's machine goes on\n", _pid); SAFE }
#ifdef WALL_CLOCK /* the holder counts on a clock that is set back */
  :: d_step { until[_pid] > 0 && !asleep[_pid] && !jumped -> jumped = 1; until[_pid] = FAR; printf("candidate %d's wall clock is set back\n", _pid); SAFE }
#endif
  od
}

#ifdef MONOTONIC_ALONE
#define COUNTS(i) !asleep[i]
#else
#define COUNTS(i) 1 /* the boot-time clock counts while the machine is suspended */
#endif
inline tick(i) {
  if
  :: COUNTS(i) ->
     if :: until[i] > 0 -> until[i]-- :: else fi;
     if :: call[i] != IDLE && age[i] < TTL -> age[i]++ :: else fi;
     if :: same[i] && since[i] < TTL -> since[i]++ :: else fi;
     if :: age[i] == TTL && (call[i] == WON || call[i] == RENEWED) || call[i] == RENEWED && until[i] == 0 -> idle(i) :: else fi
  :: else
  fi
}
#ifdef LIVE
#define BUSY(i) (call[i] != IDLE || !asleep[i] && (look[i] || MAYBID(i) || MAYLOOK(i) || until[i] > 0 && !fresh[i]))
#define MAYTICK (!healed || !BUSY(0) && !BUSY(1))
#else
#define MAYTICK 1
#endif
active proctype clock() {
  do
  :: d_step { MAYTICK -> tick(0); tick(1); if :: left > 0 -> left-- :: else fi;
#ifdef LIVE
       fresh[0] = 0; fresh[1] = 0;
       if :: healed && !LEADS(0) && !LEADS(1) -> gap++ :: else gap = 0 fi;
#endif
       printf("-- tick\n"); SAFE }
  :: d_step { FAULTY && left > 0 -> left = 0; jumped = 1; printf("the store's clock jumps forward: the lease has expired\n") }
  :: d_step { FAULTY && left < FAR && holder != NONE -> left = FAR; jumped = 1; printf("the store's clock jumps back: the lease lasts for hours\n") }
#ifdef LIVE
  :: d_step { !healed && !(asleep[0] && asleep[1]) -> healed = 1; printf("all faults end\n") }
#endif
  od
}
