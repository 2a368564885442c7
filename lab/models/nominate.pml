/* Requests of operators: nominate and depose (package election, "Operators"; backend.Request).
 *
 * Shows, whatever is late, lost or dies: requests never make two leaders; a holder steps down only for a
 * request of its own term, and only for a nominee that has accepted; and after such a handover only the
 * nominee is granted the lease for a TTL, unless the operator makes another request meanwhile. (If the
 * holder stepped down for a dead nominee, there would be an outage; a late request would affect the next
 * term; a request that ended the lease itself would make two leaders.)
 *
 * Candidate 1 is the nominee. The lease is abstract, as lease.pml allows: the holder trusts it no longer
 * than the store keeps other candidates from it (left). A late answer leaves less trust. A pin to a term
 * is one bit: is it still the row's? */
#ifndef TTL
#define TTL 2
#endif
#define N 3
#define NONE 9
#define NOMINEE 1

mtype = { NOTHING, NOMINATE, ACCEPT, DEPOSE };
byte holder = NONE; byte left; mtype request; byte vacant = TTL; /* the row; vacant: ticks since it became vacant */
mtype = { OUT, LEAD, DRAIN };
mtype phase[N] = OUT; byte until[N]; /* its function runs; it trusts its lease */
bit held[N]; bit dead[N];            /* it has a release to send, pinned to its term */
bit seen[N]; bit waits[N]; byte since[N]; /* it has read the current vacant row; that has an accepted request of another candidate; ticks since */
mtype op; bit opin;                  /* the operator's pending request, pinned to the term that the operator read */
bit acc; bit apin;                   /* the nominee's pending acceptance */
bit wished; bit accepted; bit handed; /* in this term: the operator made a request; the nominee accepted; the holder stepped down for it */

#ifdef REACH
#define GRANTED(i) assert(!(i == NOMINEE && handed && holder == NONE && vacant < TTL))
#define HONEST
#define SAFE
#else
#define GRANTED(i) assert(!(holder == NONE && handed && request == ACCEPT && i != NOMINEE && vacant < TTL))
#define HONEST assert(wished && (request != ACCEPT && request != NOMINATE || accepted))
#define ACTS(i) (phase[i] != OUT && until[i] > 0)
#define SAFE assert(ACTS(0) + ACTS(1) + ACTS(2) <= 1)
#endif
#ifdef NOT_SCOPED
#define PINNED(pin) 1
#else
#define PINNED(pin) pin
#endif
#ifdef NO_GRACE
#define BACK(i) 0
#else
#define BACK(i) (waits[i] && since[i] < TTL)
#endif
#ifdef ACCEPT_TAKES
#define TAKES(i) (i == NOMINEE && request == ACCEPT)
#else
#define TAKES(i) 0
#endif
inline changed() {
  seen[0] = 0; seen[1] = 0; seen[2] = 0; waits[0] = 0; waits[1] = 0; waits[2] = 0; since[0] = 0; since[1] = 0; since[2] = 0
}
/* A grant begins a new term and clears the request. trust: what is left when the answer arrives; 0: it never arrives. */
inline grant(i, trust) {
  GRANTED(i);
  holder = i; left = TTL; vacant = 0; changed(); opin = 0; apin = 0; wished = 0; accepted = 0; handed = 0; held[0] = 0; held[1] = 0; held[2] = 0;
#ifndef NOT_CLEARED
  request = NOTHING;
#endif
  held[i] = 1; until[i] = trust; if :: trust > 0 -> phase[i] = LEAD :: else fi;
  printf("candidate %d is granted the lease, and LEADS for %d\n", i, trust); SAFE
}
inline vacate() { holder = NONE; left = 0; vacant = 0; changed(); held[0] = 0; held[1] = 0; held[2] = 0 }
#define FREE(i) (!dead[i] && phase[i] == OUT && (holder == NONE && seen[i] && !BACK(i) || holder != NONE && left == 0 || TAKES(i)))
#define RENEWS(i) (!dead[i] && phase[i] != OUT && until[i] > 0 && holder == i && held[i] && request != DEPOSE)
inline renew(i, trust) { left = TTL; if :: trust > until[i] -> until[i] = trust :: else fi; printf("candidate %d is renewed for %d\n", i, until[i]); SAFE }
#ifdef AT_ONCE
#define WANTED (request == ACCEPT || request == NOMINATE)
#else
#define WANTED (request == ACCEPT)
#endif

active [N] proctype candidate() {
  do
  :: d_step { !dead[_pid] && holder == NONE && !seen[_pid] -> seen[_pid] = 1; since[_pid] = 0; waits[_pid] = (request == ACCEPT && _pid != NOMINEE);
       printf("candidate %d reads the vacant row\n", _pid) }
  :: d_step { FREE(_pid) -> grant(_pid, TTL) }
  :: d_step { FREE(_pid) -> grant(_pid, 1) }
  :: d_step { FREE(_pid) -> grant(_pid, 0) }
  :: d_step { RENEWS(_pid) -> renew(_pid, TTL) }
  :: d_step { RENEWS(_pid) -> renew(_pid, 1) }
  /* The answer to a renewal has the request. */
  :: d_step { RENEWS(_pid) && phase[_pid] == LEAD && WANTED -> HONEST; phase[_pid] = DRAIN; handed = 1; printf("candidate %d steps down for the nominee\n", _pid) }
  :: d_step { !dead[_pid] && phase[_pid] == LEAD && until[_pid] > 0 && holder == _pid && held[_pid] && request == DEPOSE -> HONEST; phase[_pid] = DRAIN; printf("candidate %d is deposed, and steps down\n", _pid) }
  :: d_step { !dead[_pid] && phase[_pid] == LEAD && request == NOTHING -> phase[_pid] = DRAIN; printf("candidate %d resigns\n", _pid) }
  :: d_step { !dead[_pid] && (phase[_pid] == DRAIN || phase[_pid] == LEAD && until[_pid] == 0) -> phase[_pid] = OUT; until[_pid] = 0; printf("candidate %d's function has returned\n", _pid) }
  :: d_step { held[_pid] && phase[_pid] == OUT && until[_pid] == 0 -> vacate(); printf("candidate %d's release arrives\n", _pid) }
  :: d_step { !dead[_pid] -> dead[_pid] = 1; phase[_pid] = OUT; until[_pid] = 0; held[_pid] = 0; printf("candidate %d dies\n", _pid) }
  :: d_step { dead[_pid] -> dead[_pid] = 0; seen[_pid] = 0; waits[_pid] = 0; since[_pid] = 0; printf("candidate %d comes back\n", _pid) }
  od
}

active proctype operator() {
  do
  :: d_step { op == NOTHING && holder != NOMINEE -> op = NOMINATE; opin = 1; wished = 1; printf("the operator nominates candidate 1\n") }
  :: d_step { op == NOTHING && holder != NONE -> op = DEPOSE; opin = 1; wished = 1; printf("the operator deposes candidate %d\n", holder) }
  :: d_step { op != NOTHING -> op = NOTHING; opin = 0; printf("the request is lost\n") }
  :: d_step { op != NOTHING && PINNED(opin) -> request = op; accepted = 0; handed = 0; printf("the request %e arrives, of this term: %d\n", op, opin);
       op = NOTHING; opin = 0;
#ifdef DEPOSE_ENDS
       if :: request == DEPOSE -> vacate() :: else fi
#endif
     }
  :: d_step { request == NOMINATE && !dead[NOMINEE] && phase[NOMINEE] == OUT && !acc -> acc = 1; apin = 1; printf("the nominee has read that, and accepts\n") }
  :: d_step { acc -> acc = 0; if :: PINNED(apin) -> request = ACCEPT; accepted = apin; printf("the acceptance arrives\n") :: else fi; apin = 0 }
  od
}
inline tick(i) {
  if :: until[i] > 0 -> until[i]-- :: else fi;
  if :: waits[i] && since[i] < TTL -> since[i]++ :: else fi
}
active proctype clock() {
  do
  :: d_step { tick(0); tick(1); tick(2); if :: left > 0 -> left-- :: else fi; if :: holder == NONE && vacant < TTL -> vacant++ :: else fi; printf("-- tick\n") }
  od
}
