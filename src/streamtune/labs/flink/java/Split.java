package streamtune.workload;

import java.io.Serializable;
import java.nio.ByteBuffer;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** One of the equal parts of a source's stream: the records number, number + SPLITS, number + 2·SPLITS, … */
final class Split implements SourceSplit, Serializable {
    private static final long serialVersionUID = 1L;

    // Many more than subtasks, so that every parallelism shares them out almost evenly.
    static final int SPLITS = 240;

    final int number;
    long next;

    Split(int number, long next) {
        this.number = number;
        this.next = next;
    }

    long nextId() {
        return next * SPLITS + number;
    }

    @Override
    public String splitId() {
        return Integer.toString(number);
    }

    static final class Serializer implements SimpleVersionedSerializer<Split> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Split split) {
            return ByteBuffer.allocate(12).putInt(split.number).putLong(split.next).array();
        }

        @Override
        public Split deserialize(int version, byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new Split(buffer.getInt(), buffer.getLong());
        }
    }
}
