package streamtune.workload;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Running aggregates and incremental joins: the last record of every input is kept per key. */
final class KeyedFunction extends KeyedProcessFunction<Integer, Event, Event> {
    private static final long serialVersionUID = 1L;

    private final OperatorSpec spec;
    private final Keys keys;
    private transient ServiceTime service;
    private transient Emitter emitter;
    private transient MapState<Integer, Long> lastOfInput;

    KeyedFunction(OperatorSpec spec, Keys keys) {
        this.spec = spec;
        this.keys = keys;
    }

    @Override
    public void open(OpenContext context) {
        var task = getRuntimeContext().getTaskInfo();
        service = new ServiceTime(spec, task.getIndexOfThisSubtask(), task.getNumberOfParallelSubtasks());
        emitter = new Emitter(spec, keys, task.getIndexOfThisSubtask());
        lastOfInput = getRuntimeContext().getMapState(new MapStateDescriptor<>("last", Integer.class, Long.class));
    }

    @Override
    public void processElement(Event event, Context context, Collector<Event> out) throws Exception {
        service.spend(1);
        lastOfInput.put(event.from, event.id);
        emitter.emit(event, 1, out);
    }
}
