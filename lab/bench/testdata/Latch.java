import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryNTimes;

/**
 * One process that elects with Curator's LeaderLatch, or several of a fleet, each with a connection of its own: servers,
 * path, ids, session in milliseconds, elections. At SIGHUP those that lead resign.
 */
public class Latch {
    final String path, id;
    final int session, elections;
    final CuratorFramework client;
    final List<LeaderLatch> latches = new ArrayList<>();
    final AtomicInteger led = new AtomicInteger();

    Latch(String[] args, String id) {
        path = args[1];
        this.id = id;
        session = Integer.parseInt(args[3]);
        elections = Integer.parseInt(args[4]);
        client = CuratorFrameworkFactory.builder()
            .connectString(args[0]).sessionTimeoutMs(session).connectionTimeoutMs(session)
            .retryPolicy(new RetryNTimes(10, 200)).build();
        client.start();
    }

    public static void main(String[] args) throws Exception {
        Thread orphan = new Thread(() -> {
            try {
                InputStream in = System.in;
                while (in.read() >= 0) { }
            } catch (Exception e) {
                // like the end of the input
            }
            Runtime.getRuntime().halt(1);
        });
        orphan.setDaemon(true);
        orphan.start();

        List<Latch> all = new ArrayList<>();
        for (String id : args[2].split(",")) all.add(new Latch(args, id));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            for (Latch one : all) {
                one.leave();
                one.client.close();
            }
        }));
        sun.misc.Signal.handle(new sun.misc.Signal("HUP"), signal -> {
            for (Latch one : all) new Thread(one::resign).start();
        });
        say(args[2], "opens");
        for (Latch one : all) one.join();
        say(args[2], "ready");
        Thread.currentThread().join();
    }

    void join() {
        for (int i = 0; i < elections; i++) {
            boolean first = i == 0;
            LeaderLatch latch = new LeaderLatch(client, path + "/" + i, id);
            latch.addListener(new LeaderLatchListener() {
                public void isLeader() {
                    if (first) say(id, "leads");
                    if (led.incrementAndGet() == elections) say(id, "all");
                }
                public void notLeader() {
                    led.decrementAndGet();
                    if (first) say(id, "lost");
                }
            });
            latches.add(latch);
        }
        try {
            for (LeaderLatch latch : latches) latch.start();
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    void leave() {
        for (LeaderLatch latch : latches) {
            try {
                latch.close();
            } catch (Exception e) {
                // the latch was not started
            }
        }
    }

    void resign() {
        if (led.getAndSet(0) == 0) return;
        say(id, "resigns");
        leave();
        latches.clear();
        try {
            Thread.sleep(session / 4);
        } catch (InterruptedException e) {
            return;
        }
        join(); // at the end of the queue
    }

    static synchronized void say(String id, String what) {
        byte[] line = ("{\"ID\":\"" + id + "\",\"What\":\"" + what + "\",\"At\":\"" + Instant.now() + "\"}\n").getBytes(StandardCharsets.UTF_8);
        System.out.write(line, 0, line.length);
        System.out.flush();
    }
}
