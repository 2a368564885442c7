/* How long a ZooKeeper session certainly lives (docs/design/curator.md, "How long a session lives").
 *
 * Shows: the session lives for its timeout L after request k was sent, if k was answered half a tick or
 * more before request m was sent, m was answered before request n was sent, and n was answered. Counting
 * from n, as is usual, or omitting the half tick or m, is wrong: the ensemble's leader hears of a session
 * only through the follower's next answer to a ping, never through a write.
 *
 * A follower serves the client, and the ensemble's leader counts the timeout. The leader pings the
 * follower twice a tick. The follower answers with the sessions from which it has heard since its last
 * answer; only then does the leader restart the timeout. Messages may take any time, but keep their order
 * on each connection. The leader drops a follower that is SLOW messages behind, or at any time before.
 * A step of the clock is half a tick. The client has one pending request at a time. */
#ifndef L
#define L 4
#endif
#ifndef SLOW
#define SLOW 3
#endif
#define NEVER 99

mtype = { PING, ANSWER, EMPTY, HEARD, REQUEST };
chan down = [SLOW] of { mtype }; /* leader to follower: PING, ANSWER */
chan up = [SLOW] of { mtype };   /* follower to leader: REQUEST; its answer to a ping: EMPTY, HEARD */
byte left = L;                   /* the leader's timeout: the session ends at 0 */
bit cut;                         /* the leader has dropped the follower */
bit heard;                       /* the follower has heard from the client since its last answer */
mtype = { IDLE, SENT, UNDERWAY, ANSWERED };
mtype req = IDLE;
byte trust;                      /* how long the client trusts the session */

/* Ages of requests since they were sent: age, the pending request; fresh, the latest answered since the
 * last step of the clock; older, the latest answered before that step; k, the request k for which the
 * pending request is m; km, the latest k whose m was answered. At first km is the handshake, by which the
 * leader has heard of the session. */
byte age; byte fresh = NEVER; byte older = NEVER; byte k = NEVER; byte km = 0;

#ifdef REACH /* the session is trusted long after it was created */
byte steps;
#define SAFE assert(!(steps > 2 * L && trust > 0))
#else
#define SAFE assert(trust == 0 || left > 0)
#endif

#if defined(ACKED)          /* count from n itself, which is the usual mistake */
#define SINCE age
#elif defined(BEFORE)       /* the one before n */
#define SINCE (fresh != NEVER -> fresh : older)
#else
#define SINCE km
#endif
#ifdef NO_GAP               /* k need not be answered half a tick before m is sent */
#define K (fresh != NEVER -> fresh : older)
#else
#define K older
#endif
#ifdef NO_M                 /* without m: n is sent half a tick after k was answered */
#undef SINCE
#define SINCE k
#endif

active proctype client() {
  do
  :: d_step { req == IDLE -> req = SENT; age = 0; k = K; printf("the client sends a request\n") }
  :: d_step { req == ANSWERED ->
       if :: SINCE < L && L - SINCE > trust -> trust = L - SINCE :: else fi;
       if :: k != NEVER -> km = k :: else fi;
       fresh = age; req = IDLE; age = 0; k = NEVER; printf("the client has the answer, and trusts the session for %d\n", trust); SAFE }
  od
}
active proctype follower() {
  do
  :: d_step { req == SENT && !cut && nfull(up) -> heard = 1; req = UNDERWAY; up!REQUEST; printf("the follower passes the request on\n") }
  :: d_step { down?[PING] && nfull(up) -> down?PING; if :: heard -> up!HEARD :: else -> up!EMPTY fi; heard = 0; printf("the follower answers a ping\n") }
  :: d_step { down?[ANSWER] -> down?ANSWER; req = ANSWERED; printf("the follower passes the answer on\n") }
  od
}
active proctype leader() {
  do
  :: d_step { up?[REQUEST] && !cut && nfull(down) -> up?REQUEST; if :: left > 0 -> down!ANSWER; printf("the leader has the write agreed on\n") :: else fi }
  :: d_step { up?[EMPTY] && !cut -> up?EMPTY }
  :: d_step { up?[HEARD] && !cut -> up?HEARD; if :: left > 0 -> left = L :: else fi; printf("the leader has heard of the session\n") }
  :: d_step { !cut -> cut = 1; printf("the leader hears no more of the follower\n") }
  od
}
inline ages(a) { if :: a != NEVER && a < L -> a++ :: else fi }
active proctype clock() {
  do
  :: d_step { cut || nfull(down) ->
       if :: left > 0 -> left-- :: else fi; if :: trust > 0 -> trust-- :: else fi;
       if :: fresh != NEVER -> older = fresh; fresh = NEVER :: else fi;
       if :: req != IDLE -> ages(age) :: else fi; ages(older); ages(k); ages(km);
       if :: !cut -> down!PING :: else fi;
#ifdef REACH
       if :: steps <= 2 * L -> steps++ :: else fi;
#endif
       printf("-- half a tick\n"); SAFE }
  od
}
