import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * A job in which every task instance is an operator of its own with parallelism 1, so that slot sharing groups place it.
 *
 * Arguments: host and port of the JobManager, jar, "pinned" or "grouped". Work files are read from stdin, one name a
 * line, and run one after the other; the answer is a line "RUNTIME_MS n" or "FAILED why". Lines of a work file, tasks
 * in topological order: "task NUMBER HOST", "source NUMBER RATE COUNT", "route FROM TO RATIO BYTES".
 */
public final class UnrolledJob {
    private static final TypeInformation<byte[]> BYTES = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
    private static final double UNLIMITED = 1e8;

    private record Route(int from, int to, double ratio, int bytes) {}

    /** Sends every tuple on by its routes; the ratios are met tuple by tuple, without chance. */
    static final class Task<T> extends ProcessFunction<T, byte[]> {
        private final double[] ratios;
        private final double[] credit;
        private final int[] sizes;
        private final List<OutputTag<byte[]>> tags = new ArrayList<>();
        private transient byte[][] payloads;

        Task(List<Route> routes) {
            ratios = routes.stream().mapToDouble(Route::ratio).toArray();
            sizes = routes.stream().mapToInt(Route::bytes).toArray();
            credit = new double[ratios.length];
            java.util.Arrays.fill(credit, 0.5);
            for (Route route : routes) {
                tags.add(tag(route));
            }
        }

        @Override
        public void processElement(T value, Context context, Collector<byte[]> out) {
            if (payloads == null) {
                payloads = new byte[sizes.length][];
                for (int i = 0; i < sizes.length; i++) {
                    payloads[i] = new byte[sizes[i]];
                }
            }
            for (int i = 0; i < ratios.length; i++) {
                credit[i] += ratios[i];
                while (credit[i] >= 1) {
                    credit[i] -= 1;
                    context.output(tags.get(i), payloads[i]);
                }
            }
        }
    }

    static OutputTag<byte[]> tag(Route route) {
        return new OutputTag<>("to" + route.to(), BYTES);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader names = new BufferedReader(new InputStreamReader(System.in));
        for (String name = names.readLine(); name != null; name = names.readLine()) {
            try {
                System.out.println("RUNTIME_MS " + run(Path.of(name), args));
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                System.out.println("FAILED " + String.valueOf(cause).replace('\n', ' '));
            }
            System.out.flush();
        }
    }

    private static long run(Path work, String[] args) throws Exception {
        Map<Integer, Integer> hosts = new HashMap<>();
        Map<Integer, double[]> sources = new HashMap<>();
        List<Integer> order = new ArrayList<>();
        Map<Integer, List<Route>> routes = new HashMap<>();
        for (String line : Files.readAllLines(work)) {
            String[] words = line.split(" ");
            int number = Integer.parseInt(words[1]);
            switch (words[0]) {
                case "task" -> {
                    order.add(number);
                    hosts.put(number, Integer.parseInt(words[2]));
                    routes.put(number, new ArrayList<>());
                }
                case "source" -> sources.put(number,
                        new double[] {Double.parseDouble(words[2]), Double.parseDouble(words[3])});
                case "route" -> routes.get(number).add(new Route(number, Integer.parseInt(words[2]),
                        Double.parseDouble(words[3]), Integer.parseInt(words[4])));
                default -> throw new IllegalArgumentException(line);
            }
        }
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createRemoteEnvironment(args[0], Integer.parseInt(args[1]), args[2]);
        env.setParallelism(1);
        env.disableOperatorChaining();
        build(env, order, hosts, sources, routes, args[3].equals("pinned"));
        JobExecutionResult result = env.execute("unrolled");
        return result.getNetRuntime();
    }

    private static void build(StreamExecutionEnvironment env, List<Integer> order, Map<Integer, Integer> hosts,
            Map<Integer, double[]> sources, Map<Integer, List<Route>> routes, boolean pinned) {
        Map<Integer, SlotSharingGroup> groups = new HashMap<>();
        Map<Integer, List<DataStream<byte[]>>> inputs = new HashMap<>();
        for (int task : order) {
            SlotSharingGroup group = groups.computeIfAbsent(hosts.get(task), host -> group(host, pinned));
            SingleOutputStreamOperator<byte[]> handled;
            if (sources.containsKey(task)) {
                handled = source(env, task, sources.get(task), group).process(new Task<Long>(routes.get(task)));
            } else if (inputs.containsKey(task)) {
                List<DataStream<byte[]>> arriving = inputs.get(task);
                DataStream<byte[]> all = arriving.get(0);
                if (arriving.size() > 1) {
                    @SuppressWarnings("unchecked")
                    DataStream<byte[]>[] others = arriving.subList(1, arriving.size()).toArray(new DataStream[0]);
                    all = all.union(others);
                }
                handled = all.process(new Task<byte[]>(routes.get(task)));
            } else {
                continue;
            }
            handled = handled.returns(BYTES).name("task" + task).slotSharingGroup(group);
            for (Route route : routes.get(task)) {
                inputs.computeIfAbsent(route.to(), key -> new ArrayList<>()).add(handled.getSideOutput(tag(route)));
            }
            if (routes.get(task).isEmpty()) {
                handled.sinkTo(new DiscardingSink<>()).name("end" + task).slotSharingGroup(group);
            }
        }
    }

    private static SlotSharingGroup group(int host, boolean pinned) {
        SlotSharingGroup.Builder builder = SlotSharingGroup.newBuilder("h" + host);
        if (pinned) {
            builder = builder.setCpuCores(0.1).setTaskHeapMemoryMB(48).setExternalResource("host" + host, 1.0);
        }
        return builder.build();
    }

    private static SingleOutputStreamOperator<Long> source(
            StreamExecutionEnvironment env, int task, double[] rateAndCount, SlotSharingGroup group) {
        RateLimiterStrategy limit = rateAndCount[0] >= UNLIMITED
                ? RateLimiterStrategy.noOp() : RateLimiterStrategy.perSecond(rateAndCount[0]);
        GeneratorFunction<Long, Long> numbers = number -> number;
        DataGeneratorSource<Long> made =
                new DataGeneratorSource<>(numbers, (long) rateAndCount[1], limit, Types.LONG);
        return env.fromSource(made, WatermarkStrategy.noWatermarks(), "source" + task, Types.LONG)
                .slotSharingGroup(group);
    }

    private UnrolledJob() {}
}
