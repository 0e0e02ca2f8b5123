package chaos;

import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;

/**
 * The numbers 0, 1, 2, … once each, worked on, and written to files that become visible with a checkpoint, exactly once.
 *
 * <p>Arguments: name, how many numbers, numbers per second, microseconds of work per number, folder of the files,
 * milliseconds between checkpoints.
 */
public final class NumberedJob {
    private NumberedJob() {}

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.enableCheckpointing(Long.parseLong(arguments[5]));
        env.setMaxParallelism(128);
        env.setParallelism(1);
        long nanos = 1000L * Long.parseLong(arguments[3]);
        GeneratorFunction<Long, Long> numbers = index -> index;
        DataGeneratorSource<Long> source =
                new DataGeneratorSource<>(
                        numbers,
                        Long.parseLong(arguments[1]),
                        RateLimiterStrategy.perSecond(Double.parseDouble(arguments[2])),
                        Types.LONG);
        FileSink<Long> files =
                FileSink.forRowFormat(new Path(arguments[4]), new SimpleStringEncoder<Long>())
                        .withBucketAssigner(new BasePathBucketAssigner<>())
                        .withRollingPolicy(OnCheckpointRollingPolicy.build())
                        .build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers")
                .rebalance()
                .map(new Work(nanos))
                .name("work")
                .rebalance()
                .sinkTo(files)
                .name("files");
        env.execute(arguments[0]);
    }

    /** Waits as a call to another system does. */
    static final class Work implements MapFunction<Long, Long> {
        private static final long serialVersionUID = 1L;
        private final long nanos;

        Work(long nanos) {
            this.nanos = nanos;
        }

        @Override
        public Long map(Long value) {
            LockSupport.parkNanos(nanos);
            return value;
        }
    }
}
