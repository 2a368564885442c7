import java.io.*;
import java.sql.*;
import java.time.*;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.*;

/**
 * A member of a fleet that elects by a table. It runs the fleet's statements, unchanged, at a
 * fixed rate, and reports its runs. After one that says so it believes to lead, until another one
 * says otherwise, or for the threshold. It reports that, too, and when it does not any more. It
 * ends with its input, and releases nothing, as those fleets do.
 */
public class Member {
    static volatile long until; // it believes to lead, in microseconds

    static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    static ScheduledExecutorService daemon() {
        return Executors.newSingleThreadScheduledExecutor(r -> { Thread t = new Thread(r); t.setDaemon(true); return t; });
    }

    public static void main(String[] args) throws Exception {
        String url = args[0], user = args[1], password = args[2], upsert = args[3], check = args[4], key = args[5], id = args[6];
        int threshold = Integer.parseInt(args[7]);
        long period = Long.parseLong(args[8]);
        Connection db = DriverManager.getConnection(url, user, password);
        int[] runs = {0};
        daemon().scheduleAtFixedRate(() -> {
            long began = now();
            try {
                boolean leads;
                try (PreparedStatement s = db.prepareStatement(upsert)) {
                    s.setString(1, key);
                    s.setString(2, id);
                    s.setInt(3, threshold);
                    leads = s.executeUpdate() > 0;
                }
                if (!check.isEmpty()) {
                    try (PreparedStatement s = db.prepareStatement(check)) {
                        s.setString(1, key);
                        s.setString(2, id);
                        try (ResultSet r = s.executeQuery()) {
                            leads = r.next() && r.getInt(1) > 0;
                        }
                    }
                }
                until = leads ? began + threshold * 1_000_000L : 0;
                System.out.println("run " + ++runs[0]);
            } catch (Exception e) {
                System.out.println("error " + e);
                throw new RuntimeException(e); // ends the schedule, as in those fleets
            }
        }, 0, period, TimeUnit.MILLISECONDS);

        boolean[] believed = {false};
        daemon().scheduleAtFixedRate(() -> {
            long now = now(); // read before the belief, which was held then
            boolean believes = now < until;
            if (believes) {
                System.out.println("led " + now);
            } else if (believed[0]) {
                System.out.println("not leader");
            }
            believed[0] = believes;
        }, 0, 10, TimeUnit.MILLISECONDS);
        while (System.in.read() >= 0) { }
    }
}
