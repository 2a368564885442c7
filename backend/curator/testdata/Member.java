import java.io.*;
import java.time.Instant;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.leader.*;
import org.apache.curator.retry.*;
import org.apache.zookeeper.*;
import org.apache.zookeeper.data.Stat;

/**
 * A member of an election that does not use this module: Curator's LeaderLatch ("latch") or
 * LeaderSelector ("selector"), or one node at a path ("node"). It prints events,
 * and while it believes that it leads also the time, in microseconds of the wall clock.
 * When its input ends, it resigns and exits.
 */
public class Member {
    interface Candidate { boolean leads() throws Exception; String who() throws Exception; void close() throws Exception; }

    /**
     * Code that ends a belief first ends it and then prints that. The sampler checks and
     * prints in one synchronized step, so it never prints a belief after the line that
     * ends it.
     */
    static synchronized void say(String line) { System.out.println(line); System.out.flush(); }

    static long micros() { Instant now = Instant.now(); return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000; }

    static void leader() { say("led " + micros()); say("leader"); }

    public static void main(String[] args) throws Exception {
        String kind = args[0], server = args[1], path = args[2], id = args[3];
        int session = Integer.parseInt(args[4]);
        Candidate c;
        switch (kind) {
            case "latch": c = latch(server, path, id, session); break;
            case "selector": c = selector(server, path, id, session); break;
            default: c = new Node(server, path, id, session);
        }
        say("started");
        Thread sampler = new Thread(() -> {
            boolean led = false;
            try {
                while (true) {
                    synchronized (Member.class) {
                        long now = micros(); // read before the check, so the belief held at this time
                        boolean leads = c.leads();
                        if (leads && led) say("led " + now);
                        if (led && !leads) say("idle");
                        led = leads;
                    }
                    Thread.sleep(5);
                }
            } catch (Exception e) { say("failed " + e); }
        });
        sampler.setDaemon(true);
        sampler.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            if (line.equals("who")) say("participants" + c.who());
        }
        c.close();
        say("closed");
        System.exit(0);
    }

    static CuratorFramework client(String server, int session) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(server, session, session, new RetryNTimes(1000, 100));
        client.start();
        return client;
    }

    static Candidate latch(String server, String path, String id, int session) throws Exception {
        CuratorFramework client = client(server, session);
        LeaderLatch latch = new LeaderLatch(client, path, id, LeaderLatch.CloseMode.NOTIFY_LEADER);
        latch.addListener(new LeaderLatchListener() {
            public void isLeader() { leader(); }
            public void notLeader() { say("not leader"); }
        });
        latch.start();
        return new Candidate() {
            public boolean leads() { return latch.hasLeadership(); }
            public String who() throws Exception {
                StringBuilder ids = new StringBuilder();
                for (Participant p : latch.getParticipants()) ids.append(' ').append(p.getId()).append(p.isLeader() ? "*" : "");
                return ids.toString();
            }
            public void close() throws Exception { latch.close(); client.close(); }
        };
    }

    static Candidate selector(String server, String path, String id, int session) {
        CuratorFramework client = client(server, session);
        AtomicBoolean leads = new AtomicBoolean();
        LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            public void takeLeadership(CuratorFramework f) throws Exception {
                leads.set(true);
                leader();
                try {
                    Thread.sleep(Long.MAX_VALUE);
                } finally {
                    leads.set(false);
                    say("not leader");
                }
            }
        });
        selector.setId(id);
        selector.autoRequeue();
        selector.start();
        return new Candidate() {
            public boolean leads() { return leads.get(); }
            public String who() throws Exception {
                StringBuilder ids = new StringBuilder();
                for (Participant p : selector.getParticipants()) ids.append(' ').append(p.getId()).append(p.isLeader() ? "*" : "");
                return ids.toString();
            }
            public void close() throws Exception { selector.close(); client.close(); }
        };
    }

    /**
     * One node at a path, as in many programs: the member that creates it leads, and the
     * others wait until it is deleted and try again. A member keeps its belief when its
     * connection or its session ends.
     */
    static class Node implements Candidate {
        final String path, id;
        final ZooKeeper zk;
        volatile boolean leads; // the sampler holds only the lock of say
        boolean closed;

        Node(String server, String path, String id, int session) throws IOException {
            this.path = path; this.id = id;
            zk = new ZooKeeper(server, session, event -> {});
            run();
        }

        void run() { zk.create(path, id.getBytes(), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, this::made, null); }

        void made(int rc, String p, Object ctx, String name) {
            switch (KeeperException.Code.get(rc)) {
                case OK: set(true); break;
                case NODEEXISTS: set(false); attend(); break;
                case CONNECTIONLOSS: check(); break;
                default: say("failed " + KeeperException.Code.get(rc));
            }
        }

        /** Watches the node for its deletion. */
        void attend() {
            zk.exists(path, this::changed, (rc, p, ctx, stat) -> {
                switch (KeeperException.Code.get(rc)) {
                    case CONNECTIONLOSS: attend(); break;
                    case NONODE: run(); break;
                    default: if (stat == null && rc == 0) run(); else { check(); say("waits"); }
                }
            }, null);
        }

        void changed(WatchedEvent event) {
            if (event.getType() == Watcher.Event.EventType.NodeDeleted) run();
        }

        void check() { zk.getData(path, false, this::read, null); }

        void read(int rc, String p, Object ctx, byte[] data, Stat stat) {
            switch (KeeperException.Code.get(rc)) {
                case CONNECTIONLOSS: check(); break;
                case NONODE: run(); break;
                case OK: set(new String(data).equals(id)); break;
                default:
            }
        }

        synchronized void set(boolean now) {
            if (closed) now = false;
            boolean led = leads;
            leads = now;
            if (now && !led) leader();
            if (!now && led) say("not leader");
        }

        public boolean leads() { return leads; }

        public String who() throws Exception { return " " + new String(zk.getData(path, false, null)) + "*"; }

        public void close() throws Exception {
            synchronized (this) { closed = true; set(false); }
            zk.close();
        }
    }
}
