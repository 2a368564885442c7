/* Deleted records (package lease, "Deleted records"; the meta item of backend/lease).
 *
 * Shows: never two leaders of election X, though an operator deletes its record, and that of another
 * election Z, at any moment, and though the count of records is made anew by whoever is granted an election
 * without a record. A holder whose record is deleted trusts its lease until its TTL has passed.
 *
 * The meta item has how many records were made, and how many were deleted and are accounted for. A reader
 * knows from it whether records are missing, and how many were ever deleted. X and Z have at most one record
 * each. As in session.pml, a version that is never used again is one bit: is it still the one that was read?
 * Only the holder's expiry matters here, so a record that exists is never taken over. */
#ifndef TTL
#define TTL 2
#endif
#define N 2
#define NONE 9

bit x; bit z;                 /* the records exist */
byte made;                    /* as the meta item says; records are x + z */
byte until[N];                /* ticks for which it trusts its lease of X */
bit term[N];                  /* the record of X is that of its grant */
mtype = { IDLE, BID, GRANT, WON };
mtype call[N] = IDLE; byte age[N]; bit pin[N]; /* X has no record, and the meta item is as it was read */
bit knows[N]; bit same[N]; bit seems[N]; byte since[N]; /* has read X without a record; number of deletions and epoch are still so; none was missing; ticks since */
bit look[N]; bit lsame[N]; bit lfree[N]; /* a pending reading */
bit zsame; byte zsince;       /* somebody watches Z */

#ifdef REACH
byte last = NONE;
#define NOTE(i) assert(last == NONE || last == i); last = i
#define SAFE
#else
#define NOTE(i)
#define SAFE assert(!(until[0] > 0 && until[1] > 0))
#endif

#ifdef NO_COUNT
#define MISSING 0
#else
#define MISSING (made > x + z)
#endif
#ifdef HEAL_AT_ONCE /* Z is made, and the records are counted anew, without a watch */
#define ZFREE 1
#else
#define ZFREE (!MISSING || zsame && zsince == TTL)
#endif

/* A record was deleted: the number of deletions has changed. */
inline deletion() {
#ifndef DELETIONS_UNSEEN
  same[0] = 0; same[1] = 0; lsame[0] = 0; lsame[1] = 0; zsame = 0;
#endif
  zsince = zsince
}
/* The meta item was written. */
inline meta() {
#ifndef META_UNPINNED
  pin[0] = 0; pin[1] = 0;
#endif
  made = x + z
}

#define RESET(i) call[i] = IDLE; age[i] = 0; pin[i] = 0; knows[i] = 0; same[i] = 0; seems[i] = 0; since[i] = 0
active [N] proctype candidate() {
  do
  /* A reading, and its receipt. It says whether X has no record, whether records are missing, and how many were ever deleted. */
  :: d_step { until[_pid] == 0 && call[_pid] == IDLE && !look[_pid] && !x -> look[_pid] = 1; lsame[_pid] = 1; lfree[_pid] = !MISSING; printf("candidate %d reads: no record of X, missing %d\n", _pid, MISSING) }
  :: d_step { look[_pid] && call[_pid] == IDLE ->
       if
       :: knows[_pid] && same[_pid] && lsame[_pid] && !lfree[_pid] /* the watch goes on */
       :: else -> since[_pid] = 0; same[_pid] = lsame[_pid]
       fi;
       knows[_pid] = 1; seems[_pid] = lfree[_pid]; look[_pid] = 0; lsame[_pid] = 0; lfree[_pid] = 0; printf("candidate %d has read: free %d, watched for %d\n", _pid, seems[_pid], since[_pid]) }
  :: d_step { until[_pid] == 0 && call[_pid] == IDLE && knows[_pid] && (seems[_pid] || same[_pid] && since[_pid] == TTL) -> call[_pid] = BID; age[_pid] = 0; printf("candidate %d bids\n", _pid) }
  /* The bid reads once more. It goes on if that shows what the candidate expects, and requires what it has read. */
  :: d_step { call[_pid] == BID ->
       if
       :: !x && (seems[_pid] && !MISSING || !seems[_pid] && MISSING && same[_pid]) -> pin[_pid] = 1; call[_pid] = GRANT
       :: else -> RESET(_pid); printf("the bid of candidate %d is refused\n", _pid)
       fi }
  :: d_step { call[_pid] == GRANT ->
       if
       :: !x && pin[_pid] -> x = 1; term[0] = 0; term[1] = 0; term[_pid] = 1; meta(); call[_pid] = WON; printf("X is granted to candidate %d\n", _pid)
       :: else -> RESET(_pid); printf("the grant to candidate %d is refused\n", _pid)
       fi }
  :: d_step { call[_pid] == WON && age[_pid] < TTL -> NOTE(_pid); until[_pid] = TTL - age[_pid]; RESET(_pid); printf("candidate %d LEADS for %d\n", _pid, until[_pid]); SAFE }
  :: d_step { call[_pid] != IDLE -> RESET(_pid); printf("candidate %d gives its bid up\n", _pid) }
  :: d_step { until[_pid] > 0 && x && term[_pid] -> until[_pid] = TTL; printf("candidate %d renews\n", _pid) }
  od
}
active proctype world() {
  do
  :: d_step { x -> x = 0; term[0] = 0; term[1] = 0; deletion(); printf("an operator deletes X\n") }
  :: d_step { z -> z = 0; deletion(); printf("an operator deletes Z\n") }
  :: d_step { !z && ZFREE -> z = 1; meta(); zsame = 0; zsince = 0; printf("Z is granted, the records are counted: %d\n", made) }
  :: d_step { !z && !zsame -> zsame = 1; zsince = 0; printf("somebody begins to watch Z\n") }
  od
}
inline tick(i) {
  if :: until[i] > 0 -> until[i]-- :: else fi;
  if :: call[i] != IDLE && age[i] < TTL -> age[i]++ :: else fi;
  if :: knows[i] && since[i] < TTL -> since[i]++ :: else fi
}
active proctype clock() {
  do
  :: d_step { tick(0); tick(1); if :: zsame && zsince < TTL -> zsince++ :: else fi; printf("-- tick\n") }
  od
}
