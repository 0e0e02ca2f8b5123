package streamtune.workload;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** A replayable generator whose rate is read from a file, so that it can be changed while the job runs. */
final class EmulatedSource implements Source<Event, Split, List<Split>> {
    private static final long serialVersionUID = 1L;

    private final OperatorSpec spec;
    private final Keys keys;
    private final String ratesFile;

    EmulatedSource(OperatorSpec spec, Keys keys, String ratesFile) {
        this.spec = spec;
        this.keys = keys;
        this.ratesFile = ratesFile;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<Event, Split> createReader(SourceReaderContext context) {
        return new EmulatedReader(spec, keys, new RateFile(ratesFile, spec.id, spec.rate), context);
    }

    @Override
    public SplitEnumerator<Split, List<Split>> createEnumerator(SplitEnumeratorContext<Split> context) {
        List<Split> all = new ArrayList<>();
        for (int number = 0; number < Split.SPLITS; number++) {
            all.add(new Split(number, 0));
        }
        return new Enumerator(context, all);
    }

    @Override
    public SplitEnumerator<Split, List<Split>> restoreEnumerator(
            SplitEnumeratorContext<Split> context, List<Split> unassigned) {
        return new Enumerator(context, unassigned);
    }

    @Override
    public SimpleVersionedSerializer<Split> getSplitSerializer() {
        return new Split.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<List<Split>> getEnumeratorCheckpointSerializer() {
        return new UnassignedSerializer();
    }

    /** Gives every split to the reader whose turn it is, as soon as that reader is there. */
    private static final class Enumerator implements SplitEnumerator<Split, List<Split>> {
        private final SplitEnumeratorContext<Split> context;
        private final List<Split> unassigned;
        private final Set<Integer> readers = new HashSet<>();

        Enumerator(SplitEnumeratorContext<Split> context, List<Split> unassigned) {
            this.context = context;
            this.unassigned = new ArrayList<>(unassigned);
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Split> splits, int subtask) {
            readers.remove(subtask);
            unassigned.addAll(splits);
            assign();
        }

        @Override
        public void addReader(int subtask) {
            readers.add(subtask);
            assign();
        }

        private void assign() {
            List<Split> waiting = new ArrayList<>();
            for (Split split : unassigned) {
                int reader = split.number % context.currentParallelism();
                if (readers.contains(reader)) {
                    context.assignSplit(split, reader);
                } else {
                    waiting.add(split);
                }
            }
            unassigned.clear();
            unassigned.addAll(waiting);
        }

        @Override
        public List<Split> snapshotState(long checkpointId) {
            return new ArrayList<>(unassigned);
        }

        @Override
        public void close() {}
    }

    private static final class UnassignedSerializer implements SimpleVersionedSerializer<List<Split>> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(List<Split> splits) {
            ByteBuffer buffer = ByteBuffer.allocate(12 * splits.size());
            for (Split split : splits) {
                buffer.putInt(split.number).putLong(split.next);
            }
            return buffer.array();
        }

        @Override
        public List<Split> deserialize(int version, byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            List<Split> splits = new ArrayList<>();
            while (buffer.hasRemaining()) {
                splits.add(new Split(buffer.getInt(), buffer.getLong()));
            }
            return splits;
        }
    }
}
