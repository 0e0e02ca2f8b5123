package streamtune.workload;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Window aggregates and window joins, tumbling and sliding, by time or by count.
 *
 * <p>Records are counted per key, input and pane (one period), as the slices of Flink's own SQL windows; a window is the
 * panes it covers. A time window fires by a processing-time timer at the end of every period, a count window when a key
 * has taken a period's worth of records. The share of the work that belongs to firing is spent then.
 */
final class WindowFunction extends KeyedProcessFunction<Integer, Event, Event> {
    private static final long serialVersionUID = 1L;

    private final OperatorSpec spec;
    private final Keys keys;
    private transient ServiceTime service;
    private transient Emitter emitter;
    private transient MapState<Long, Long> recordsOfPane;

    WindowFunction(OperatorSpec spec, Keys keys) {
        this.spec = spec;
        this.keys = keys;
    }

    @Override
    public void open(OpenContext context) {
        var task = getRuntimeContext().getTaskInfo();
        service = new ServiceTime(spec, task.getIndexOfThisSubtask(), task.getNumberOfParallelSubtasks());
        emitter = new Emitter(spec, keys, task.getIndexOfThisSubtask());
        recordsOfPane = getRuntimeContext().getMapState(new MapStateDescriptor<>("panes", Long.class, Long.class));
    }

    @Override
    public void processElement(Event event, Context context, Collector<Event> out) throws Exception {
        service.spend(1 - spec.fireShare);
        if (spec.isTimeWindow) {
            long now = context.timerService().currentProcessingTime();
            long end = now - Math.floorMod(now, spec.windowPeriod) + spec.windowPeriod;
            if (add(end, 0) == 1) {
                context.timerService().registerProcessingTimeTimer(end);
            }
        } else if (add(0, startOf(event.key)) >= spec.windowPeriod) {
            recordsOfPane.put(0L, 0L);
            emitter.emit(event, spec.windowPeriod, out);
        }
    }

    private long add(long pane, long start) throws Exception {
        Long before = recordsOfPane.get(pane);
        long now = (before == null ? start : before) + 1;
        recordsOfPane.put(pane, now);
        return now;
    }

    /** Keys start in the middle of their count windows, each elsewhere: as if the job had been running for long. */
    private long startOf(int key) {
        return Math.floorMod(Keys.mix(key), spec.windowPeriod);
    }

    @Override
    public void onTimer(long end, OnTimerContext context, Collector<Event> out) throws Exception {
        Long arrived = recordsOfPane.get(end);
        if (arrived != null) {
            service.spend(spec.fireShare * arrived);
            emitter.emit(new Event(Keys.mix(end ^ context.getCurrentKey()), context.getCurrentKey(), 0), arrived, out);
        }
        List<Long> expired = new ArrayList<>();
        for (long pane : recordsOfPane.keys()) {
            if (pane <= end - spec.windowLength + spec.windowPeriod) {
                expired.add(pane);
            }
        }
        for (long pane : expired) {
            recordsOfPane.remove(pane);
        }
    }
}
