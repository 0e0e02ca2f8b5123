package foreign;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiter;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;

/**
 * A rate that changes from outside: a share of the number in a file, looked up twice a second.
 *
 * <p>Raw types and no @Override at acquire: Flink 1.20 and 2.3 declare them differently.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class DrivenRate implements RateLimiterStrategy {
    private static final long EVERY_NANOS = 500_000_000L;

    private final String file;
    private final double share;

    DrivenRate(String file, double share) {
        this.file = file;
        this.share = share;
    }

    @Override
    public RateLimiter createRateLimiter(int parallelism) {
        return new Limiter(Paths.get(file), share, parallelism);
    }

    private static final class Limiter implements RateLimiter {
        private final Path file;
        private final double share;
        private final int parallelism;
        private double rate = -1;
        private long lookedNanos = System.nanoTime() - EVERY_NANOS;
        private RateLimiter limiter;

        Limiter(Path file, double share, int parallelism) {
            this.file = file;
            this.share = share;
            this.parallelism = parallelism;
        }

        public CompletionStage<Void> acquire() {
            long now = System.nanoTime();
            if (now - lookedNanos >= EVERY_NANOS) {
                lookedNanos = now;
                look();
            }
            return limiter.acquire();
        }

        public CompletionStage<Void> acquire(int records) {
            CompletionStage<Void> all = CompletableFuture.completedFuture(null);
            for (int i = 0; i < records; i++) {
                all = all.thenCompose(nothing -> acquire());
            }
            return all;
        }

        private void look() {
            try {
                double found = share * Double.parseDouble(new String(Files.readAllBytes(file)).trim());
                if (found != rate) {
                    rate = found;
                    limiter = RateLimiterStrategy.perSecond(rate).createRateLimiter(parallelism);
                }
            } catch (IOException | NumberFormatException unreadable) {
                if (limiter == null) {
                    throw new IllegalStateException("no rate in " + file, unreadable);
                }
            }
        }
    }
}
