/* Terms (docs/design/election.md, "Terms"; backend.NextTerm and backend.GrownTerm).
 *
 * Shows: every term exceeds all that were granted before, known or not, though the store loses grants as often
 * as it likes, its record is deleted, and grants are lost of which nobody knows; and though the clock that granted
 * before the first damage was ahead by any time that is shorter than a day. No term is more than a day ahead of
 * the clock.
 *
 * Each grant after a loss comes a tick or more after what was lost, as the lease is observed for a TTL. A tick is
 * 256 terms, and a term ahead of the clock grows by a sixteenth of that. */
#ifndef DAY
#define DAY 4 /* ticks */
#endif
#ifndef AHEAD
#define AHEAD 3 /* ticks by which the first clock may be ahead */
#endif
#ifndef GROWTH
#define GROWTH 16
#endif
#ifdef WRONG_JUMP
#define RIGHT if :: jumped -> ahead = 0 :: else fi /* the first jump is the wrong clock's, too */
#else
#define RIGHT ahead = 0
#endif
#define TICK 256
#define END 11 /* ticks */

byte now;
byte ahead;             /* ticks by which the clock is ahead; it is set right with the first damage */
short top;              /* the greatest term that was granted */
short last; byte at;    /* the store's record, and when it was written, by the clock */
short copy; byte was;   /* an earlier record: a replica's, or a backup's */
bit same;               /* no term has jumped since the copy was made: nobody notices if it comes back */
bit damaged; bit wait; byte grants;
short term; byte clock;
bit jumped; bit again;

inline grant() {
  clock = now + ahead;
  term = last + (clock > at && last > 0 && GROWTH > 0 -> (clock - at) * GROWTH : 1);
  if :: clock * TICK > term -> term = clock * TICK :: else fi;
  if
#if DAY > 0
#ifdef FROM_LAST
  :: damaged -> term = term + DAY * TICK; again = jumped; jumped = 1
#else
  :: damaged ->
       term = (clock + DAY) * TICK; again = jumped; jumped = 1;
       do :: term <= last -> term = term + DAY * TICK :: else -> break od
#endif
#endif
  :: else -> skip
  fi;
#ifdef REACH
  assert(!(again && !damaged && term == now * TICK));
#else
#ifdef WITHIN_A_DAY
  assert(term < (clock + DAY) * TICK + grants + 1);
#else
  assert(term > top);
#endif
#endif
  if :: damaged -> same = 0 :: else fi;
  top = term; last = term; at = clock; damaged = 0; grants++;
  printf("granted at %d: term %d\n", now, term);
  term = 0; clock = 0
}

init {
  select(ahead : 0 .. AHEAD);
  do
  :: d_step { !wait && grants < 2 -> grant() }
  :: d_step { !damaged -> copy = last; was = at; same = 1; printf("the record is copied: term %d\n", last) }
  :: d_step { damaged = 1; wait = 1; last = copy; at = was; RIGHT; printf("DAMAGE: the copy is the record: term %d\n", last) }
  :: d_step { damaged = 1; wait = 1; last = 0; at = 0; RIGHT; printf("DAMAGE: the record is gone\n") }
  :: d_step { same && !damaged -> last = copy; at = was; wait = 1; printf("grants are lost, and nobody knows: term %d\n", last) }
  :: d_step { now < END -> now++; wait = 0; grants = 0; printf("-- tick\n") }
  od
}
