package streamtune.workload;

import org.apache.flink.util.Collector;

/** Emits {@code selectivity} records per record taken, on average and as evenly as whole records allow. */
final class Emitter {
    private final OperatorSpec spec;
    private final Keys keys;
    private double credit;
    private long emitted;

    Emitter(OperatorSpec spec, Keys keys, int subtask) {
        this.spec = spec;
        this.keys = keys;
        // Subtasks start at different points of their cycle, otherwise many slow ones would emit all at once.
        credit = (Keys.mix(subtask) >>> 11) * 0x1.0p-53 * Math.min(1.0, spec.selectivity);
    }

    /** A record that passes a selectivity of one unchanged keeps its identity; all others are new records. */
    void emit(Event cause, double taken, Collector<Event> out) {
        if (spec.selectivity == 1.0 && taken == 1.0) {
            out.collect(new Event(cause.id, cause.key, spec.position));
            return;
        }
        credit += spec.selectivity * taken;
        while (credit >= 1.0) {
            credit -= 1.0;
            long id = Keys.mix(cause.id ^ Keys.mix(++emitted));
            out.collect(new Event(id, keys.of(id), spec.position));
        }
    }
}
