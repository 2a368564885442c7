/* From one store to another and back, by lock chaining (package migration).
 *
 * Shows: with the seal there are never two leaders, whatever the stages of members and the order in
 * which they change them, even beside a foreign member that does not know of the migration. Without the
 * seal this holds only while all members are at adjacent stages and there is no foreign member.
 * (Publishing the stage instead would be check-then-act.)
 *
 *   A member at stage FROM leads with the old lease; at BOTH with the old and the new lease; at TO with
 *   the new lease, once the old election is sealed and the new store has a record of that. A member at
 *   FROM cannot be granted a sealed lease, but it could renew one that it holds.
 *   To seal: hold both leases; seal, and wait for the answer; record it; only then release the old.
 *   To unseal: hold both leases; clear the record, and wait for the answer; unseal.
 *   Each of these writes is pinned to the term of the lease that it changes.
 *
 * Leases are abstract, as lease.pml allows: the holder trusts a lease no longer than the store keeps
 * other members from it (left). A late answer leaves less trust. Members change their stage by a
 * restart, and the leases that they held expire. */
#ifndef TTL
#define TTL 2
#endif
#ifndef N
#define N 3                   /* the last one is the foreign member, if there is one */
#endif
#define NONE 9
#define GONE 8                /* a dead incarnation */
#define OLD 0
#define NEW 1

byte holder[2] = NONE; byte left[2]; bit seal; bit record; /* the stores */

mtype = { FROM, BOTH, TO };
mtype stage[N] = FROM;
byte trust[2*N];              /* of member i in the old lease: 2i, and in the new: 2i+1 */
#define OLDT(i) trust[2*(i)]
#define NEWT(i) trust[2*(i)+1]
bit sealed[N]; bit cleared[N]; /* it received the answer while it held both */
bit knows[N];                 /* it has read the record with its new lease */
mtype = { IDLE, SEAL, RECORD, CLEAR, UNSEAL };
mtype op[N] = IDLE; bit pin[N]; bit mine[N]; /* a pending request, its pin, and whether its sender still waits for the answer */

#ifdef NO_SEAL
#define MAYTO(i) 1
#else
#define MAYTO(i) knows[i]
#endif
#ifdef EITHER
#define CHAINED(i) (OLDT(i) > 0 || NEWT(i) > 0)
#else
#define CHAINED(i) (OLDT(i) > 0 && NEWT(i) > 0)
#endif
#define LEADS(i) (stage[i] == FROM && OLDT(i) > 0 || stage[i] == BOTH && CHAINED(i) || stage[i] == TO && NEWT(i) > 0 && (MAYTO(i) || OLDT(i) > 0))
#if N == 2
#define LEADERS (LEADS(0) + LEADS(1))
#else
#define LEADERS (LEADS(0) + LEADS(1) + LEADS(2))
#endif
#ifdef REACH /* there and back again: FROM leads, then TO, then FROM */
byte way;
#define SAFE
#define NOTE(i) if :: (way & 1) == 0 && stage[i] == FROM && LEADS(i) -> way++; assert(way < 3) :: way == 1 && stage[i] == TO && LEADS(i) && OLDT(i) == 0 -> way++ :: else fi
#else
#define SAFE assert(LEADERS <= 1)
#define NOTE(i)
#endif
#ifdef STRANGER
#define FOREIGN(i) (i == N-1)
#else
#define FOREIGN(i) 0
#endif
#ifdef ADJACENT /* no member at FROM beside one at TO */
#define ANY(s) (stage[0] == s && _pid != 0 || stage[1] == s && _pid != 1 || stage[N-1] == s && _pid != N-1 && !FOREIGN(N-1))
#define FITS(s) !(s == FROM && ANY(TO) || s == TO && ANY(FROM))
#else
#define FITS(s) 1
#endif
#ifdef UNPINNED
#define PINNED(i) 1
#elif defined(SEAL_UNPINNED)
#define PINNED(i) (pin[i] || op[i] == SEAL)
#elif defined(UNSEAL_UNPINNED)
#define PINNED(i) (pin[i] || op[i] == UNSEAL)
#else
#define PINNED(i) pin[i]
#endif
#ifdef UNSEAL_HALF
#define HOLDS(i) (OLDT(i) > 0)
#else
#define HOLDS(i) (OLDT(i) > 0 && NEWT(i) > 0)
#endif

inline over(x, i) { if :: (op[i] == SEAL || op[i] == UNSEAL) && x == OLD || (op[i] == RECORD || op[i] == CLEAR) && x == NEW -> pin[i] = 0 :: else fi }
/* The term of lease x has ended. */
inline ended(x) {
  over(x, 0); over(x, 1);
#if N > 2
  over(x, 2);
#endif
}
inline grant(x, i, t) {
  if :: holder[x] != i -> ended(x); holder[x] = i :: else fi; left[x] = TTL;
  if :: t > trust[2*i+x] -> trust[2*i+x] = t :: else fi;
  if :: x == NEW && t > 0 -> knows[i] = record :: else fi;
  printf("member %d (%e) has lease %d, and trusts it for %d\n", i, stage[i], x, trust[2*i+x]); NOTE(i); SAFE
}
inline vacate(x, i) { ended(x); holder[x] = NONE; left[x] = 0; printf("member %d releases lease %d\n", i, x) }
inline forget(i) { OLDT(i) = 0; NEWT(i) = 0; sealed[i] = 0; cleared[i] = 0; knows[i] = 0; mine[i] = 0 }
inline restart(i, s) {
  if :: holder[OLD] == i -> holder[OLD] = GONE :: else fi; if :: holder[NEW] == i -> holder[NEW] = GONE :: else fi;
  forget(i); stage[i] = s; printf("member %d dies and comes back at stage %e\n", i, s)
}
inline send(i, what) { op[i] = what; pin[i] = 1; mine[i] = 1; printf("member %d sends: %e\n", i, what) }
#define FREE(x, i) (holder[x] == NONE || holder[x] == i || left[x] == 0)
#define MAYOLD(i) (FREE(OLD, i) && (stage[i] == FROM && (!seal || holder[OLD] == i) || stage[i] == BOTH || stage[i] == TO && !record))
#define MAYNEW(i) (FREE(NEW, i) && (stage[i] == BOTH && OLDT(i) > 0 || stage[i] == TO && (OLDT(i) > 0 || record || NEWT(i) > 0 || MAYALONE)))
#ifdef NO_SEAL
#define MAYALONE 1
#else
#define MAYALONE 0
#endif

active [N] proctype member() {
  do
  :: d_step { MAYOLD(_pid) -> grant(OLD, _pid, 0) }
  :: d_step { MAYOLD(_pid) -> grant(OLD, _pid, 1) }
  :: d_step { MAYOLD(_pid) -> grant(OLD, _pid, TTL) }
  :: d_step { MAYNEW(_pid) -> grant(NEW, _pid, 0) }
  :: d_step { MAYNEW(_pid) -> grant(NEW, _pid, 1) }
  :: d_step { MAYNEW(_pid) -> grant(NEW, _pid, TTL) }
  /* It stops leading, and only then releases; but at TO it no longer needs the old lease. */
    :: d_step { OLDT(_pid) > 0 && (stage[_pid] != TO || knows[_pid] || !LEADS(_pid)) -> OLDT(_pid) = 0; sealed[_pid] = 0; cleared[_pid] = 0; printf("member %d does not need the old lease any more\n", _pid); NOTE(_pid) }
  :: d_step { NEWT(_pid) > 0 -> NEWT(_pid) = 0; knows[_pid] = 0; sealed[_pid] = 0; cleared[_pid] = 0; printf("member %d does not need the new lease any more\n", _pid) }
  :: d_step { holder[OLD] == _pid && OLDT(_pid) == 0 -> vacate(OLD, _pid) }
  :: d_step { holder[NEW] == _pid && NEWT(_pid) == 0 -> vacate(NEW, _pid) }
  /* It dies and restarts, at this stage or another. */
  :: d_step { FITS(FROM) -> restart(_pid, FROM) }
  :: d_step { !FOREIGN(_pid) && FITS(BOTH) -> restart(_pid, BOTH) }
  :: d_step { !FOREIGN(_pid) && FITS(TO) -> restart(_pid, TO) }

#ifndef NO_SEAL
  /* The way there. */
  :: d_step { !mine[_pid] && stage[_pid] == TO && HOLDS(_pid) && !knows[_pid] && !sealed[_pid] -> send(_pid, SEAL) }
#ifdef RECORD_FIRST
  :: d_step { !mine[_pid] && stage[_pid] == TO && HOLDS(_pid) && !knows[_pid] -> send(_pid, RECORD) }
#else
  :: d_step { !mine[_pid] && sealed[_pid] -> send(_pid, RECORD) }
#endif
#ifdef LET_GO_EARLY /* the old lease is released when the seal is sent, not when the record is written */
  :: d_step { op[_pid] == SEAL && mine[_pid] && OLDT(_pid) > 0 -> knows[_pid] = 1; OLDT(_pid) = 0 }
#endif
  /* The way back. */
#ifdef UNSEAL_FIRST
  :: d_step { !mine[_pid] && stage[_pid] == BOTH && HOLDS(_pid) && seal -> send(_pid, UNSEAL) }
#elif defined(UNSEAL_HALF)
  :: d_step { !mine[_pid] && stage[_pid] == BOTH && HOLDS(_pid) && seal -> send(_pid, UNSEAL) }
#else
  :: d_step { !mine[_pid] && stage[_pid] == BOTH && HOLDS(_pid) && seal && !cleared[_pid] -> send(_pid, CLEAR) }
  :: d_step { !mine[_pid] && cleared[_pid] -> send(_pid, UNSEAL) }
#endif
#endif
  /* The request arrives at any time, and is executed if its pin still matches; the answer arrives or is lost. */
  :: d_step { op[_pid] != IDLE && PINNED(_pid) ->
       if
       :: op[_pid] == SEAL -> seal = 1; if :: mine[_pid] && HOLDS(_pid) -> sealed[_pid] = 1 :: else fi
       :: op[_pid] == RECORD -> record = 1; if :: mine[_pid] && NEWT(_pid) > 0 -> knows[_pid] = 1 :: else fi; sealed[_pid] = 0
       :: op[_pid] == CLEAR -> record = 0; if :: mine[_pid] && HOLDS(_pid) -> cleared[_pid] = 1 :: else fi
       :: op[_pid] == UNSEAL -> seal = 0; cleared[_pid] = 0
       fi; printf("%e of member %d is done\n", op[_pid], _pid); op[_pid] = IDLE; pin[_pid] = 0; mine[_pid] = 0; NOTE(_pid); SAFE }
  :: d_step { op[_pid] != IDLE && PINNED(_pid) && mine[_pid] ->
       if :: op[_pid] == SEAL -> seal = 1 :: op[_pid] == RECORD -> record = 1 :: op[_pid] == CLEAR -> record = 0 :: op[_pid] == UNSEAL -> seal = 0 fi;
       printf("%e of member %d is done; its answer is lost, and it is still on its way a second time\n", op[_pid], _pid); mine[_pid] = 0; SAFE }
  :: d_step { op[_pid] != IDLE -> printf("%e of member %d is lost\n", op[_pid], _pid); op[_pid] = IDLE; pin[_pid] = 0; mine[_pid] = 0 }
  od
}
inline tick(i) {
  if :: OLDT(i) > 0 -> OLDT(i)-- :: else fi; if :: NEWT(i) > 0 -> NEWT(i)-- :: else fi;
  if :: OLDT(i) == 0 || NEWT(i) == 0 -> sealed[i] = 0; cleared[i] = 0 :: else fi; if :: NEWT(i) == 0 -> knows[i] = 0 :: else fi
}
active proctype clock() {
  do
  :: d_step { tick(0); tick(1);
#if N > 2
       tick(2);
#endif
       if :: left[OLD] > 0 -> left[OLD]-- :: else fi; if :: left[NEW] > 0 -> left[NEW]-- :: else fi; printf("-- tick\n") }
  od
}
