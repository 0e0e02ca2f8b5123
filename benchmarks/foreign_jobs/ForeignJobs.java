package foreign;

import java.time.Duration;
import java.util.Collections;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.functions.JoinFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.assigners.ProcessingTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.triggers.PurgingTrigger;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Jobs as people write them: default names, chaining on, generator sources without any lag metric.
 *
 * <p>Arguments: the kind of job, records per second (a number, or a file that holds it and may change), microseconds of
 * work per record, the parallelism.
 */
public final class ForeignJobs {
    private ForeignJobs() {}

    public static void main(String[] arguments) throws Exception {
        String kind = arguments[0];
        String rate = arguments[1];
        long micros = Long.parseLong(arguments[2]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.enableCheckpointing(5000);
        env.setMaxParallelism(128);
        if (arguments.length > 3) {
            env.setParallelism(Integer.parseInt(arguments[3]));
        }
        build(kind, env, rate, micros);
        env.execute("foreign-" + kind);
    }

    private static void build(String kind, StreamExecutionEnvironment env, String rate, long micros) {
        DataStream<Long> in = source(env, "orders", rate, 1, kind.equals("chained"));
        switch (kind) {
            case "chain":
                discard(in.rebalance().map(new Work(micros)).filter(new OneIn(2)));
                break;
            case "cpu":
                discard(in.rebalance().map(new Burn(micros)).filter(new OneIn(2)));
                break;
            case "fork":
                discard(in.rebalance().map(new Work(micros)));
                discard(in.filter(new OneIn(50)).rebalance().map(new Work(micros)).name("audit"));
                break;
            case "side-output":
                sideOutput(in, micros);
                break;
            case "union":
                discard(in.union(source(env, "returns", rate, 0.5, false)).keyBy(new Key()).process(new KeyedWork(micros)));
                break;
            case "self-join":
                discard(
                        in.join(in)
                                .where(new Key())
                                .equalTo(new Key())
                                .window(TumblingProcessingTimeWindows.of(Duration.ofSeconds(1)))
                                .apply(new Pair())
                                .keyBy(new Key())
                                .process(new KeyedWork(micros)));
                break;
            case "co-process":
                discard(
                        in.keyBy(new Key())
                                .connect(source(env, "rules", rate, 0.05, false).keyBy(new Key()))
                                .process(new CoWork(micros)));
                break;
            case "async":
                discard(AsyncDataStream.unorderedWait(in.rebalance(), new Lookup(micros), 30, TimeUnit.SECONDS, 4));
                break;
            case "session":
                discard(
                        in.rebalance()
                                .map(new Work(micros))
                                .keyBy(new Key())
                                .window(ProcessingTimeSessionWindows.withGap(Duration.ofSeconds(1)))
                                .reduce(new Sum()));
                break;
            case "global-window":
                discard(
                        in.keyBy(new Key())
                                .window(GlobalWindows.create())
                                .trigger(PurgingTrigger.of(CountTrigger.of(20)))
                                .reduce(new SlowSum(micros)));
                break;
            case "single":
                discard(
                        in.rebalance()
                                .map(new Work(micros))
                                .filter(new OneIn(10))
                                .windowAll(TumblingProcessingTimeWindows.of(Duration.ofSeconds(1)))
                                .reduce(new Sum()));
                break;
            case "chained":
                discard(in.map(new Work(micros)).filter(new OneIn(2)));
                break;
            default:
                throw new IllegalArgumentException("no job of kind " + kind);
        }
    }

    private static void sideOutput(DataStream<Long> in, long micros) {
        OutputTag<Long> late = new OutputTag<Long>("late", Types.LONG) {};
        SingleOutputStreamOperator<Long> split =
                in.rebalance()
                        .process(
                                new ProcessFunction<Long, Long>() {
                                    @Override
                                    public void processElement(Long value, Context context, Collector<Long> out) {
                                        LockSupport.parkNanos(micros * 1000L / 4);
                                        if (value % 20 == 0) {
                                            context.output(late, value);
                                        } else {
                                            out.collect(value);
                                        }
                                    }
                                });
        discard(split.rebalance().map(new Work(micros)));
        discard(split.getSideOutput(late).rebalance().map(new Work(micros)).name("correct"));
    }

    private static DataStream<Long> source(
            StreamExecutionEnvironment env, String name, String rate, double share, boolean chained) {
        GeneratorFunction<Long, Long> numbers = index -> index;
        DataGeneratorSource<Long> made =
                new DataGeneratorSource<>(numbers, Long.MAX_VALUE, limit(rate, share), Types.LONG);
        if (chained) {
            return env.fromSource(new ManySplits(made), WatermarkStrategy.noWatermarks(), name);
        }
        return env.fromSource(made, WatermarkStrategy.noWatermarks(), name).setParallelism(1);
    }

    @SuppressWarnings("rawtypes")
    private static RateLimiterStrategy limit(String rate, double share) {
        return rate.startsWith("/")
                ? new DrivenRate(rate, share)
                : RateLimiterStrategy.perSecond(share * Double.parseDouble(rate));
    }

    private static void discard(DataStream<Long> stream) {
        stream.sinkTo(new DiscardingSink<>());
    }

    /** Waits as a call to another system does. */
    static final class Work implements MapFunction<Long, Long> {
        private final long nanos;

        Work(long micros) {
            nanos = micros * 1000L;
        }

        @Override
        public Long map(Long value) {
            LockSupport.parkNanos(nanos);
            return value;
        }
    }

    /** Computes: so many microseconds of one core, however many cores there are. */
    static final class Burn extends RichMapFunction<Long, Long> {
        private final long micros;
        private static volatile long perMicro = 0;

        Burn(long micros) {
            this.micros = micros;
        }

        private static synchronized long calibrated() {
            if (perMicro == 0) {
                spin(3_000_000);
                long best = Long.MAX_VALUE;
                for (int i = 0; i < 20; i++) {
                    long start = System.nanoTime();
                    spin(200_000);
                    best = Math.min(best, System.nanoTime() - start);
                }
                perMicro = Math.max(1, 200_000L * 1000 / best);
            }
            return perMicro;
        }

        private static long spin(long rounds) {
            long state = 88172645463325252L;
            for (long i = 0; i < rounds; i++) {
                state ^= state << 13;
                state ^= state >>> 7;
                state ^= state << 17;
            }
            return state;
        }

        @Override
        public Long map(Long value) {
            return value + (spin(micros * calibrated()) == 0 ? 1 : 0);
        }
    }

    static final class OneIn implements FilterFunction<Long> {
        private final int many;

        OneIn(int many) {
            this.many = many;
        }

        @Override
        public boolean filter(Long value) {
            return value % many == 0;
        }
    }

    static final class Key implements KeySelector<Long, Long> {
        @Override
        public Long getKey(Long value) {
            return value % 1009;
        }
    }

    static final class KeyedWork extends KeyedProcessFunction<Long, Long, Long> {
        private final long nanos;

        KeyedWork(long micros) {
            nanos = micros * 1000L;
        }

        @Override
        public void processElement(Long value, Context context, Collector<Long> out) {
            LockSupport.parkNanos(nanos);
            out.collect(value);
        }
    }

    static final class CoWork extends KeyedCoProcessFunction<Long, Long, Long, Long> {
        private final long nanos;

        CoWork(long micros) {
            nanos = micros * 1000L;
        }

        @Override
        public void processElement1(Long value, Context context, Collector<Long> out) {
            LockSupport.parkNanos(nanos);
            out.collect(value);
        }

        @Override
        public void processElement2(Long value, Context context, Collector<Long> out) {}
    }

    static final class Pair implements JoinFunction<Long, Long, Long> {
        @Override
        public Long join(Long left, Long right) {
            return left;
        }
    }

    static final class Sum implements ReduceFunction<Long> {
        @Override
        public Long reduce(Long left, Long right) {
            return left + right;
        }
    }

    static final class SlowSum implements ReduceFunction<Long> {
        private final long nanos;

        SlowSum(long micros) {
            nanos = micros * 1000L;
        }

        @Override
        public Long reduce(Long left, Long right) {
            LockSupport.parkNanos(nanos);
            return left;
        }
    }

    /** Asynchronous: four requests under way for each instance, answered after some milliseconds. */
    static final class Lookup extends RichAsyncFunction<Long, Long> {
        private final long micros;
        private transient ScheduledExecutorService timer;

        Lookup(long micros) {
            this.micros = micros;
        }

        private ScheduledExecutorService timer() {
            if (timer == null) {
                timer = Executors.newScheduledThreadPool(1);
            }
            return timer;
        }

        @Override
        public void asyncInvoke(Long value, ResultFuture<Long> result) {
            CompletableFuture<Long> answer = new CompletableFuture<>();
            timer().schedule(() -> answer.complete(value), micros, TimeUnit.MICROSECONDS);
            answer.thenAccept(one -> result.complete(Collections.singleton(one)));
        }

        @Override
        public void close() {
            if (timer != null) {
                timer.shutdownNow();
            }
        }
    }
}
