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

/** One process that elects with Curator's LeaderLatch: servers, path, id, session in milliseconds, elections. */
public class Latch {
    public static void main(String[] args) throws Exception {
        String id = args[2];
        int session = Integer.parseInt(args[3]);
        int elections = Integer.parseInt(args[4]);
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

        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(args[0]).sessionTimeoutMs(session).connectionTimeoutMs(session)
            .retryPolicy(new RetryNTimes(10, 200)).build();
        client.start();
        List<LeaderLatch> latches = new ArrayList<>();
        AtomicInteger led = new AtomicInteger();
        for (int i = 0; i < elections; i++) {
            boolean first = i == 0;
            LeaderLatch latch = new LeaderLatch(client, args[1] + "/" + i, id);
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
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            for (LeaderLatch latch : latches) {
                try {
                    latch.close();
                } catch (Exception e) {
                    // the latch was not started
                }
            }
            client.close();
        }));
        for (LeaderLatch latch : latches) latch.start();
        Thread.currentThread().join();
    }

    static synchronized void say(String id, String what) {
        byte[] line = ("{\"ID\":\"" + id + "\",\"What\":\"" + what + "\",\"At\":\"" + Instant.now() + "\"}\n").getBytes(StandardCharsets.UTF_8);
        System.out.write(line, 0, line.length);
        System.out.flush();
    }
}
