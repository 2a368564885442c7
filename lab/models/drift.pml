/* Clocks that tick at different rates (package election, Options.ClockMargin).
 *
 * Shows: with clocks that are wrong by up to 1/12 in opposite directions (83,333 ppm, chrony's default
 * limit for slewing), a clock margin of a sixth of the TTL is enough, and half of that is not. Delays are
 * arbitrary, and runs may have any length.
 *
 * Once in RATE ticks of true time, a clock may skip a tick or count one twice. A candidate measures all
 * times on its own clock. The lease is that of lease.pml, without doubled requests, releases and
 * restarts, which do not depend on clocks. */
#ifndef TTL
#define TTL 12
#endif
#ifndef CLOCK_MARGIN
#define CLOCK_MARGIN 2
#endif
#ifndef RATE
#define RATE 12
#endif
#define N 2
#define NONE 9

byte holder = NONE;
byte until[N];                /* it leads while this is above 0 */
mtype = { IDLE, RENEW, RENEWED, BID, WON }; /* its call, or the pending answer */
mtype call[N] = IDLE; byte age[N]; bit pin[N];
bit look[N]; bit lsame[N]; bit same[N]; byte since[N];
byte cool[N];                 /* ticks of true time until the clock may be wrong again */

#ifdef REACH
byte last = NONE;
#define NOTE(i) assert(last == NONE || last == i); last = i
#define SAFE
#else
#define NOTE(i)
#define SAFE assert(!(until[0] > 0 && until[1] > 0))
#endif

inline writes() {
  same[0] = 0; same[1] = 0; lsame[0] = 0; lsame[1] = 0; since[0] = 0; since[1] = 0;
  if :: call[0] == BID -> pin[0] = 0 :: else fi;
  if :: call[1] == BID -> pin[1] = 0 :: else fi
}
inline idle(i) { call[i] = IDLE; age[i] = 0; pin[i] = 0 }

active [N] proctype candidate() {
  do
  /* It reads the lease if it does not know it, and observes it from when it receives the answer. */
  :: d_step { until[_pid] == 0 && call[_pid] == IDLE && !look[_pid] && !same[_pid] ->
       look[_pid] = 1; lsame[_pid] = 1; printf("candidate %d's reading is answered\n", _pid) }
  :: d_step { look[_pid] -> look[_pid] = 0; same[_pid] = lsame[_pid]; lsame[_pid] = 0; since[_pid] = 0;
       printf("candidate %d begins to watch what it has read\n", _pid) }
  /* A bid is a compare-and-swap of what was observed. */
  :: d_step { until[_pid] == 0 && call[_pid] == IDLE && same[_pid] && (holder == NONE || holder == _pid || since[_pid] == TTL) ->
       call[_pid] = BID; pin[_pid] = 1; same[_pid] = 0; since[_pid] = 0; printf("candidate %d bids\n", _pid) }
  :: d_step { call[_pid] == BID && pin[_pid] -> writes(); holder = _pid; call[_pid] = WON; pin[_pid] = 0; printf("the store grants candidate %d\n", _pid) }
  /* A renewal is pinned to the term. (A candidate makes one call at a time and none is doubled, so
   * while it is the holder, it holds that term.) */
  :: d_step { until[_pid] > 0 && call[_pid] == IDLE -> call[_pid] = RENEW; printf("candidate %d sends a renewal\n", _pid) }
  :: d_step { call[_pid] == RENEW && holder == _pid -> writes(); call[_pid] = RENEWED; printf("the store renews candidate %d\n", _pid) }
  /* The answer arrives in time, late, or never. */
  :: d_step { (call[_pid] == WON || call[_pid] == RENEWED && until[_pid] > 0) && TTL - age[_pid] > CLOCK_MARGIN ->
       if :: call[_pid] == WON -> NOTE(_pid) :: else fi;
       if :: TTL - age[_pid] - CLOCK_MARGIN > until[_pid] -> until[_pid] = TTL - age[_pid] - CLOCK_MARGIN :: else fi;
       printf("candidate %d LEADS for %d\n", _pid, until[_pid]); look[_pid] = 0; lsame[_pid] = 0; same[_pid] = 0; since[_pid] = 0; idle(_pid); SAFE }
  :: d_step { call[_pid] != IDLE -> idle(_pid); printf("candidate %d gives its call up\n", _pid) }
  od
}

/* One tick of true time: candidate i counts n. */
#define MAY(i, n) (n == 1 || cool[i] == 0)
inline counts(i, n) {
  if :: n != 1 -> cool[i] = RATE - 1 :: else -> if :: cool[i] > 0 -> cool[i]-- :: else fi fi;
  until[i] = (until[i] > n -> until[i] - n : 0);
  if :: call[i] != IDLE -> age[i] = (age[i] + n > TTL -> TTL : age[i] + n) :: else fi;
  if :: same[i] -> since[i] = (since[i] + n > TTL -> TTL : since[i] + n) :: else fi;
  /* A late answer has no effect. */
  if :: call[i] == RENEWED && (until[i] == 0 || TTL - age[i] <= CLOCK_MARGIN) || call[i] == WON && TTL - age[i] <= CLOCK_MARGIN -> idle(i) :: else fi
}
inline tick(n0, n1) { counts(0, n0); counts(1, n1); printf("-- tick: clocks count %d and %d\n", n0, n1); SAFE }
active proctype clock() {
  do
  :: d_step { tick(1, 1) }
  :: d_step { MAY(0, 0) -> tick(0, 1) }
  :: d_step { MAY(0, 2) -> tick(2, 1) }
  :: d_step { MAY(1, 0) -> tick(1, 0) }
  :: d_step { MAY(1, 2) -> tick(1, 2) }
  :: d_step { MAY(0, 0) && MAY(1, 0) -> tick(0, 0) }
  :: d_step { MAY(0, 0) && MAY(1, 2) -> tick(0, 2) }
  :: d_step { MAY(0, 2) && MAY(1, 0) -> tick(2, 0) }
  :: d_step { MAY(0, 2) && MAY(1, 2) -> tick(2, 2) }
  od
}
