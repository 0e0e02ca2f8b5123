package streamtune.workload;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/** Filters, maps, flat maps and every operator type we do not know: one record at a time, no state. */
final class RecordFunction extends ProcessFunction<Event, Event> {
    private static final long serialVersionUID = 1L;

    private final OperatorSpec spec;
    private final Keys keys;
    private transient ServiceTime service;
    private transient Emitter emitter;

    RecordFunction(OperatorSpec spec, Keys keys) {
        this.spec = spec;
        this.keys = keys;
    }

    @Override
    public void open(OpenContext context) {
        var task = getRuntimeContext().getTaskInfo();
        service = new ServiceTime(spec, task.getIndexOfThisSubtask(), task.getNumberOfParallelSubtasks());
        emitter = new Emitter(spec, keys, task.getIndexOfThisSubtask());
    }

    @Override
    public void processElement(Event event, Context context, Collector<Event> out) {
        service.spend(1);
        emitter.emit(event, 1, out);
    }
}
