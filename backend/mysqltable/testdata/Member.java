import java.io.*;
import java.sql.*;
import java.util.concurrent.*;

/**
 * A member of a fleet that elects by a table. It runs the fleet's statements, unchanged, at a
 * fixed rate. It reports when each run began and ended, and whether it believes to lead since.
 * It ends with its input, and releases nothing, as those fleets do.
 */
public class Member {
    public static void main(String[] args) throws Exception {
        String url = args[0], user = args[1], password = System.getenv("PASSWORD"), upsert = args[2], check = args[3], key = args[4], id = args[5];
        int threshold = Integer.parseInt(args[6]);
        long period = Long.parseLong(args[7]);
        Connection db = DriverManager.getConnection(url, user, password);
        Executors.newSingleThreadScheduledExecutor(r -> { Thread t = new Thread(r); t.setDaemon(true); return t; }).scheduleAtFixedRate(() -> {
            long began = System.currentTimeMillis();
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
                System.out.println("run " + began + " " + System.currentTimeMillis() + " " + leads);
            } catch (Exception e) {
                System.out.println("error " + e);
                throw new RuntimeException(e); // ends the schedule, as in those fleets
            }
        }, 0, period, TimeUnit.MILLISECONDS);
        while (System.in.read() >= 0) { }
    }
}
