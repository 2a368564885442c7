/* Sessions with a heartbeat: the takeover of packages consul, etcd and curator (docs/design/consul.md and
 * etcd.md, "What could two processes each believe?"; docs/design/curator.md, "What two processes may
 * believe").
 *
 * Shows: never two leaders, even if locks disappear at any moment while their holders trust them, and if
 * requests are late and doubled. A lease is a lock of the holder's session (on ZooKeeper: its node in the
 * queue), a record, and the session's own key or node, into which a renewal writes a fresh heartbeat. A
 * challenger observes all three for a TTL, and its takeover is a transaction that compares all three.
 * Renewing the session alone would not prove that the lock still exists: an administrator may delete it.
 * SPLIT (Consul): a renewal of more than 31 leases does not fit into one transaction. The holder writes
 * the heartbeat, and then a consistent reading shows that locks and records have not changed. (On etcd
 * both are one transaction, which this case covers.)
 * MOVES (etcd): the record is the only lock. The session's key may disappear because etcd has ended its
 * lease, rightly or not. Then the holder moves its record to another session, by a transaction that
 * compares only the record.
 *
 * An index or version is never reused. So if a process remembers one, all that matters is whether it is
 * still the key's: one bit. Time is as in lease.pml. */
#ifndef TTL
#define TTL 2
#endif
#define N 2
#define NONE 9

byte holder = NONE; bit locked;  /* the record's holder; the lock belongs to the holder's session */
byte until[N];                   /* it leads while this is above 0 */
bit term[N];                     /* lock and record are still those of its term */
mtype = { IDLE, BID, WON, RENEW, VERIFY, RENEWED, RELEASE, MOVE };
mtype call[N] = IDLE; byte age[N];
bit pin[N];                      /* lock and record match the call; for a bid, the heartbeat too */
bit heartbeat[N];                /* the heartbeat key matches the renewal */
mtype ghost = IDLE; bit whose; bit gpin; bit gbeat;
bit look[N]; bit lsame[N]; bit same[N]; byte since[N]; /* a pending reading, and whether it is unchanged; what it observes is unchanged, and for how long */
bit done;

#ifdef REACH
byte last = NONE;
#define NOTE(i) assert(last == NONE || last == i); last = i
#define SAFE
#else
#define NOTE(i)
#define SAFE assert(!(until[0] > 0 && until[1] > 0))
#endif

inline unseen(i) {
  same[i] = 0; since[i] = 0; lsame[i] = 0;
  if :: call[i] == BID -> pin[i] = 0 :: else fi
}
/* A holder's heartbeat was written. (If a lease is not locked, challengers observe only lock and record.) */
inline heartbeats(who) {
  if :: call[who] == RENEW -> heartbeat[who] = 0 :: else fi;
  if :: ghost == RENEW && whose == who -> gbeat = 0 :: else fi;
#ifndef NO_HEARTBEAT
  if :: holder == who && locked -> unseen(0); unseen(1); if :: ghost == BID -> gpin = 0 :: else fi :: else fi
#endif
}
/* Lock and record were written: calls pinned to them are void. */
inline changes() {
  unseen(0); unseen(1); term[0] = 0; term[1] = 0; gpin = 0;
  if :: call[0] != IDLE -> pin[0] = 0 :: else fi; if :: call[1] != IDLE -> pin[1] = 0 :: else fi
}
#ifdef SPLIT
#define CHECKED(pin) 1
#else
#define CHECKED(pin) pin
#endif
inline store(kind, who, pinned, bpinned) {
  done = 1;
  if
  :: kind == RENEW && CHECKED(pinned) && bpinned -> heartbeats(who)
  :: kind == BID && pinned -> changes(); holder = who; locked = 1
#ifdef MOVE_BLIND
  :: kind == MOVE -> changes(); holder = who; locked = 1
#endif
  :: kind == MOVE && pinned -> changes(); holder = who; locked = 1
#ifdef RELEASE_BY_SESSION /* like Consul's PUT ?release=, which a late copy repeats in a later term */
  :: kind == RELEASE && holder == who -> changes(); holder = NONE; locked = 0
#endif
  :: kind == RELEASE && pinned -> changes(); holder = NONE; locked = 0
  :: else -> done = 0
  fi
}
#ifdef MOVES /* a holder that moves has another key */
#define KEY(i) (locked || holder != i)
#else
#define KEY(i) 1
#endif
inline idle(i) { call[i] = IDLE; age[i] = 0; pin[i] = 0; heartbeat[i] = 0 }
#ifdef UNLOCKED_FREE
#define FREE (!locked)
#else
#define FREE (holder == NONE)
#endif
#ifdef NO_VERIFY /* the holder reads nothing, or from a server that is behind */
#define VERIFIED(i) 1
#else
#define VERIFIED(i) pin[i]
#endif

active [N] proctype candidate() {
  do
  :: d_step { until[_pid] == 0 && call[_pid] == IDLE && !look[_pid] && !same[_pid] -> look[_pid] = 1; lsame[_pid] = 1; printf("candidate %d's reading is answered\n", _pid) }
  :: d_step { look[_pid] -> look[_pid] = 0; same[_pid] = lsame[_pid]; lsame[_pid] = 0; since[_pid] = 0; printf("candidate %d begins to watch what it has read\n", _pid) }
  :: d_step { until[_pid] == 0 && call[_pid] == IDLE && same[_pid] && (FREE || holder == _pid || since[_pid] == TTL) ->
       call[_pid] = BID; pin[_pid] = 1; printf("candidate %d bids\n", _pid) }
  :: d_step { until[_pid] > 0 && call[_pid] == IDLE -> call[_pid] = RENEW; pin[_pid] = term[_pid]; heartbeat[_pid] = KEY(_pid); printf("candidate %d sends a renewal\n", _pid) }
#ifdef MOVES
  :: d_step { until[_pid] > 0 && call[_pid] == IDLE && !locked && holder == _pid -> call[_pid] = MOVE; pin[_pid] = term[_pid]; printf("candidate %d moves to another session\n", _pid) }
#endif
  :: d_step { call[_pid] == IDLE && term[_pid] -> until[_pid] = 0; call[_pid] = RELEASE; pin[_pid] = 1; printf("candidate %d has ceased to lead, and sends a release\n", _pid) }

  :: d_step { call[_pid] == RENEW || call[_pid] == BID || call[_pid] == RELEASE || call[_pid] == MOVE ->
       store(call[_pid], _pid, pin[_pid], heartbeat[_pid]); printf("the store, %e of candidate %d: done %d\n", call[_pid], _pid, done); heartbeat[_pid] = 0;
       if
       :: done && (call[_pid] == BID || call[_pid] == MOVE) -> call[_pid] = WON; pin[_pid] = 1
#ifdef SPLIT
       :: done && call[_pid] == RENEW -> call[_pid] = VERIFY
#else
       :: done && call[_pid] == RENEW -> call[_pid] = RENEWED
#endif
       :: !done && call[_pid] == RENEW && !pin[_pid] -> until[_pid] = 0; idle(_pid)
       :: else -> idle(_pid)
       fi; done = 0 }
#ifdef SPLIT
  :: d_step { call[_pid] == VERIFY && VERIFIED(_pid) -> call[_pid] = RENEWED; printf("a reading shows that candidate %d still has its lock\n", _pid) }
  :: d_step { call[_pid] == VERIFY && !pin[_pid] -> until[_pid] = 0; idle(_pid); printf("a reading shows that candidate %d has lost its lock\n", _pid) }
#endif
  :: d_step { (call[_pid] == RENEW || call[_pid] == BID || call[_pid] == RELEASE || call[_pid] == MOVE) && ghost == IDLE ->
       ghost = call[_pid]; whose = _pid; gpin = pin[_pid]; gbeat = heartbeat[_pid]; printf("the %e of candidate %d is doubled\n", ghost, _pid) }
  :: d_step { call[_pid] != IDLE -> if :: call[_pid] == WON -> term[_pid] = pin[_pid] :: else fi; idle(_pid); printf("candidate %d gives its call up\n", _pid) }
  :: d_step { (call[_pid] == WON || call[_pid] == RENEWED && until[_pid] > 0) && age[_pid] < TTL ->
       if :: call[_pid] == WON -> NOTE(_pid); term[_pid] = pin[_pid]; same[_pid] = 0; since[_pid] = 0; look[_pid] = 0; lsame[_pid] = 0 :: else fi;
       if :: TTL - age[_pid] > until[_pid] -> until[_pid] = TTL - age[_pid] :: else fi;
       printf("candidate %d LEADS for %d\n", _pid, until[_pid]); idle(_pid); SAFE }
  od
}
active proctype world() {
  do
  :: d_step { ghost != IDLE -> store(ghost, whose, gpin, gbeat); printf("the doubled %e of %d arrives: done %d\n", ghost, whose, done);
       ghost = IDLE; whose = 0; gpin = 0; gbeat = 0; done = 0 }
  /* The holder's session ends, or its lock is deleted manually. */
#ifdef MOVES
  :: d_step { locked -> unseen(0); unseen(1); if :: ghost == BID -> gpin = 0 :: else fi;
       if :: call[0] == RENEW -> heartbeat[0] = 0 :: else fi; if :: call[1] == RENEW -> heartbeat[1] = 0 :: else fi; if :: ghost == RENEW -> gbeat = 0 :: else fi;
       locked = 0; printf("the key of candidate %d's session goes away\n", holder) }
#else
  :: d_step { locked -> changes(); locked = 0; printf("candidate %d's lock is unlocked\n", holder) }
#endif
  od
}
inline tick(i) {
  if :: until[i] > 0 -> until[i]-- :: else fi;
  if :: call[i] != IDLE && call[i] != RELEASE && age[i] < TTL -> age[i]++ :: else fi;
  if :: age[i] == TTL && (call[i] == WON || call[i] == RENEWED) || (call[i] == RENEWED || call[i] == VERIFY) && until[i] == 0 -> if :: call[i] == WON -> term[i] = pin[i] :: else fi; idle(i) :: else fi;
  if :: same[i] && since[i] < TTL -> since[i]++ :: else fi
}
active proctype clock() {
  do
  :: d_step { tick(0); tick(1); printf("-- tick\n") }
  od
}
