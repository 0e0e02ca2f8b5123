package streamtune.workload;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The end of a job: counts what arrives, in state that checkpoints carry across rescales, and shows it as metrics.
 * The number of records, the sum of their ids and the sum of the squares give away a record that is lost or doubled.
 */
final class SinkFunction extends ProcessFunction<Event, Void> implements CheckpointedFunction {
    private static final long serialVersionUID = 1L;

    private final OperatorSpec spec;
    private transient ServiceTime service;
    private transient ListState<long[]> stored;
    private transient long[] sums;

    SinkFunction(OperatorSpec spec) {
        this.spec = spec;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        sums = new long[3];
        stored = context.getOperatorStateStore().getListState(new ListStateDescriptor<>(
                "sums", PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO));
        for (long[] part : stored.get()) {
            for (int i = 0; i < sums.length; i++) {
                sums[i] += part[i];
            }
        }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
        stored.clear();
        stored.add(sums.clone());
    }

    @Override
    public void open(OpenContext context) {
        var task = getRuntimeContext().getTaskInfo();
        service = new ServiceTime(spec, task.getIndexOfThisSubtask(), task.getNumberOfParallelSubtasks());
        String[] names = {"seenRecords", "seenIds", "seenIdSquares"};
        for (int i = 0; i < names.length; i++) {
            int position = i;
            getRuntimeContext().getMetricGroup().gauge(names[i], (Gauge<Long>) () -> sums[position]);
        }
    }

    @Override
    public void processElement(Event event, Context context, Collector<Void> out) {
        service.spend(1);
        sums[0] += 1;
        sums[1] += event.id;
        sums[2] += event.id * event.id % 1_000_003L;
    }
}
