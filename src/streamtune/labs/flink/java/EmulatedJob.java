package streamtune.workload;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Builds any job spec as a DataStream topology: one vertex per operator, nothing chained. */
public final class EmulatedJob {
    private final StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
    private final Map<String, DataStream<Event>> streams = new HashMap<>();
    private final int keyGroups;
    private final Keys keys;
    private final String ratesFile;

    private EmulatedJob(JsonNode job) {
        keyGroups = job.get("key_groups").asInt();
        keys = new Keys(keyGroups);
        ratesFile = job.get("rates_file").asText();
        env.setMaxParallelism(keyGroups);
        env.disableOperatorChaining();
        env.getConfig().enableObjectReuse();
        env.enableCheckpointing(job.get("checkpoint_ms").asLong());
        Configuration shown = new Configuration();
        job.get("shown").fields().forEachRemaining(entry -> shown.setString(entry.getKey(), entry.getValue().asText()));
        env.getConfig().setGlobalJobParameters(shown);
    }

    /** The one argument is the job as JSON. */
    public static void main(String[] arguments) throws Exception {
        JsonNode job = new ObjectMapper().readTree(arguments[0]);
        EmulatedJob topology = new EmulatedJob(job);
        int position = 0;
        for (JsonNode operator : job.get("operators")) { // in topological order
            topology.add(new OperatorSpec(position++, operator));
        }
        topology.env.executeAsync(job.get("name").asText());
    }

    private void add(OperatorSpec spec) {
        if (spec.isSource()) {
            streams.put(spec.id, named(spec, env.fromSource(
                    new EmulatedSource(spec, keys, ratesFile), WatermarkStrategy.noWatermarks(), spec.displayName(),
                    TypeInformation.of(Event.class))));
        } else if (spec.isSink()) {
            named(spec, inputOf(spec).process(new SinkFunction(spec)));
        } else if (spec.isKeyed()) {
            var keyed = inputOf(spec).keyBy(event -> event.key, TypeInformation.of(Integer.class));
            streams.put(spec.id, named(spec, spec.isWindow
                    ? keyed.process(new WindowFunction(spec, keys), TypeInformation.of(Event.class))
                    : keyed.process(new KeyedFunction(spec, keys), TypeInformation.of(Event.class))));
        } else {
            streams.put(spec.id, named(spec,
                    inputOf(spec).process(new RecordFunction(spec, keys), TypeInformation.of(Event.class))));
        }
    }

    private static <T> SingleOutputStreamOperator<T> named(OperatorSpec spec, SingleOutputStreamOperator<T> stream) {
        return stream.name(spec.displayName()).uid(spec.id).setParallelism(spec.parallelism);
    }

    private DataStream<Event> inputOf(OperatorSpec spec) {
        List<DataStream<Event>> inputs = new ArrayList<>();
        for (int i = 0; i < spec.inputs.size(); i++) {
            DataStream<Event> input = streams.get(spec.inputs.get(i));
            inputs.add(spec.isKeyed() ? input : partitioned(input, spec.partitionings.get(i)));
        }
        DataStream<Event> first = inputs.remove(0);
        for (DataStream<Event> other : inputs) {
            first = first.union(other);
        }
        return first;
    }

    /** Vertices are scaled one by one, which a forward edge would forbid: it becomes its scalable kin, rescale. */
    private DataStream<Event> partitioned(DataStream<Event> stream, String partitioning) {
        int groups = keyGroups;
        switch (partitioning) {
            case "hash":
                return stream.partitionCustom(
                        (Integer key, int parts) ->
                                KeyGroupRangeAssignment.assignKeyToParallelOperator(key, groups, parts),
                        event -> event.key);
            case "broadcast":
                return stream.broadcast();
            case "forward":
                return stream.rescale();
            default:
                return stream.rebalance();
        }
    }
}
