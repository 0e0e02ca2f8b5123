package streamtune.workload;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;

/** Emits the records of its splits at their share of the source's rate, and is idle in between. */
final class EmulatedReader implements SourceReader<Event, Split> {
    // While a source cannot emit it keeps half a second of input, as the simulator's generators do; the rest is not made.
    private static final double BACKLOG_SECONDS = 0.5;
    private static final long NAP_NANOS = 10_000_000L;

    private final OperatorSpec spec;
    private final Keys keys;
    private final RateFile rate;
    private final SourceReaderContext context;
    private final ServiceTime service;
    private final List<Split> splits = new ArrayList<>();
    private int turn;
    private double due;
    private long countedNanos;

    EmulatedReader(OperatorSpec spec, Keys keys, RateFile rate, SourceReaderContext context) {
        this.spec = spec;
        this.keys = keys;
        this.rate = rate;
        this.context = context;
        this.service = new ServiceTime(spec, context.getIndexOfSubtask(), context.currentParallelism());
    }

    @Override
    public void start() {
        countedNanos = System.nanoTime();
    }

    @Override
    public InputStatus pollNext(ReaderOutput<Event> output) {
        if (due < 1) {
            gather();
        }
        Split split = due < 1 ? null : nextSplit();
        if (split == null) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        due -= 1;
        service.spend(1);
        long id = split.nextId();
        split.next += 1;
        context.metricGroup().getIOMetricGroup().getNumRecordsInCounter().inc();
        output.collect(new Event(id, keys.of(id), spec.position));
        return InputStatus.MORE_AVAILABLE;
    }

    private void gather() {
        long now = System.nanoTime();
        double share = rate.ratePerSecond() * splits.size() / Split.SPLITS;
        due = Math.min(due + share * (now - countedNanos) / 1e9, Math.max(1.0, share * BACKLOG_SECONDS));
        countedNanos = now;
    }

    /** The next split in turn that is not at the source's limit; null if there is none. */
    private Split nextSplit() {
        for (int tried = 0; tried < splits.size(); tried++) {
            turn = (turn + 1) % splits.size();
            if (splits.get(turn).nextId() < spec.limit) {
                return splits.get(turn);
            }
        }
        return null;
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return new CompletableFuture<Void>().completeOnTimeout(null, NAP_NANOS, TimeUnit.NANOSECONDS);
    }

    @Override
    public List<Split> snapshotState(long checkpointId) {
        List<Split> copies = new ArrayList<>();
        for (Split split : splits) {
            copies.add(new Split(split.number, split.next));
        }
        return copies;
    }

    @Override
    public void addSplits(List<Split> added) {
        splits.addAll(added);
    }

    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public void close() {}
}
