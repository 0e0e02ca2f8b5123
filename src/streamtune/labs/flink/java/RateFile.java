package streamtune.workload;

import java.io.File;
import java.io.IOException;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** The rate of one source, looked up twice a second in a file of the form {"bids": 4000.0}. */
final class RateFile {
    private static final long EVERY_NANOS = 500_000_000L;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final File file;
    private final String source;
    private double ratePerSecond;
    private long lookedNanos = System.nanoTime() - EVERY_NANOS;
    private long modified = -1;

    RateFile(String path, String source, double initialPerSecond) {
        this.file = new File(path);
        this.source = source;
        this.ratePerSecond = initialPerSecond;
    }

    double ratePerSecond() {
        long now = System.nanoTime();
        if (now - lookedNanos >= EVERY_NANOS) {
            lookedNanos = now;
            long found = file.lastModified(); // 0 where there is no file: the rate of the spec stays
            if (found != 0 && found != modified) {
                read(found);
            }
        }
        return ratePerSecond;
    }

    private void read(long found) {
        try {
            JsonNode rate = JSON.readTree(file).path(source);
            if (rate.isNumber() && rate.asDouble() >= 0) {
                ratePerSecond = rate.asDouble();
            }
            modified = found;
        } catch (IOException unreadable) {
            // Written by rename, so this is a passing trouble of the file system: the next look tries again.
        }
    }
}
