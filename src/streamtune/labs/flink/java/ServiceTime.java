package streamtune.workload;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * Makes a record cost its service time by parking the task's thread: Flink counts that as busy time, and the cores stay
 * free. Time owed is gathered until a pause is worth its system call, and what a pause overshoots is taken off the next
 * one, so that the mean is exact.
 *
 * <p>Subtasks slow each other down by the universal scalability law, and the first subtask carries the skew: its records
 * take longer and those of the others less, which loads the subtasks as unevenly as a skewed key would.
 */
final class ServiceTime {
    private static final double WORTH_A_PAUSE_NANOS = 4e6;
    // A stall of the machine is not work done in advance: only this much may be credited to later records.
    private static final double LARGEST_CREDIT_NANOS = 2e7;

    private final double meanNanos;
    private final double sigma;
    private double owedNanos;

    ServiceTime(OperatorSpec spec, int subtask, int parallelism) {
        int p = parallelism;
        double slowdown = 1 + spec.contention * (p - 1) + spec.coherency * p * (p - 1);
        double hot = 1 + spec.skew * (1 - 1.0 / p);
        double share = p == 1 ? 1.0 : subtask == 0 ? hot : (p - hot) / (p - 1);
        meanNanos = spec.serviceNanos * slowdown * share;
        sigma = Math.sqrt(Math.log1p(spec.variation * spec.variation));
    }

    /** Spend the time of {@code records} records (a fraction of one is fine). */
    void spend(double records) {
        double drawn = sigma == 0 ? 1.0 : Math.exp(sigma * ThreadLocalRandom.current().nextGaussian() - sigma * sigma / 2);
        owedNanos += meanNanos * records * drawn;
        if (owedNanos >= WORTH_A_PAUSE_NANOS) {
            pause();
        }
    }

    private void pause() {
        long start = System.nanoTime();
        long passed = 0;
        while (passed < owedNanos && !Thread.currentThread().isInterrupted()) {
            LockSupport.parkNanos((long) owedNanos - passed);
            passed = System.nanoTime() - start;
        }
        owedNanos = Math.max(owedNanos - passed, -LARGEST_CREDIT_NANOS);
    }
}
