package streamtune.workload;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** One operator of the job spec with its physics, as plain numbers. */
final class OperatorSpec implements Serializable {
    private static final long serialVersionUID = 1L;

    final int position;
    final String id;
    final String type;
    final int parallelism;
    final List<String> inputs = new ArrayList<>();
    final List<String> partitionings = new ArrayList<>();
    final double rate;
    final long limit;

    final double serviceNanos;
    final double selectivity;
    final double contention;
    final double coherency;
    final double skew;
    final double variation;
    final double fireShare;

    final boolean isWindow;
    final boolean isTimeWindow;
    final long windowLength;
    final long windowPeriod;

    OperatorSpec(int position, JsonNode node) {
        this.position = position;
        id = node.get("id").asText();
        type = node.get("type").asText();
        parallelism = node.get("parallelism").asInt();
        rate = node.path("rate").asDouble(0.0);
        limit = node.path("limit").asLong(Long.MAX_VALUE);
        for (JsonNode input : node.path("inputs")) {
            inputs.add(input.get("from").asText());
            partitionings.add(input.get("partitioning").asText());
        }
        JsonNode physics = node.get("physics");
        serviceNanos = 1000.0 * physics.get("service_us").asDouble();
        selectivity = physics.get("selectivity").asDouble();
        contention = physics.get("contention").asDouble();
        coherency = physics.get("coherency").asDouble();
        skew = physics.get("skew").asDouble();
        variation = physics.get("cv").asDouble();
        JsonNode window = node.path("window");
        isWindow = window.isObject();
        isTimeWindow = isWindow && window.get("policy").asText().equals("time");
        double unit = isTimeWindow ? 1000.0 : 1.0; // milliseconds, or records
        double length = window.path("length").asDouble(1.0);
        double slide = window.path("slide").isNumber() ? window.get("slide").asDouble() : length;
        windowLength = Math.max(1, Math.round(length * unit));
        windowPeriod = Math.max(1, Math.round(slide * unit));
        // Count windows fire for every key at its own moment, in the simulator as here: no burst to set work aside for.
        fireShare = isTimeWindow ? physics.get("fire_share").asDouble() : 0.0;
    }

    boolean isSource() {
        return type.equals("source");
    }

    boolean isSink() {
        return type.equals("sink");
    }

    boolean isKeyed() {
        return isWindow || type.equals("join") || type.equals("window_join") || type.equals("aggregate")
                || type.equals("window_aggregate");
    }

    /** What Flink shows; it puts "Source: " in front of sources by itself. */
    String displayName() {
        return isSink() ? "Sink: " + id : id;
    }
}
