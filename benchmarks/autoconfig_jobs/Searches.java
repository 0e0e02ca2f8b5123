package autoconfig;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.util.Collector;

/**
 * Searches as fast as they can be made, cleaned, split into words, and counted per word in SQL. Nothing that can be
 * tuned is set here.
 *
 * <p>The source is a vertex of its own: what leaves it is what is measured. Mini-batches are gathered behind it, and
 * would otherwise be chained to it and count fewer records, the better they are.
 */
public final class Searches {
    private static final int WORDS = 5000;
    private static final int USERS = 20000;

    private Searches() {}

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        StreamTableEnvironment table = StreamTableEnvironment.create(env);
        DataStream<Tuple3<Integer, Long, String>> searches =
                env.fromSource(
                                new DataGeneratorSource<>(
                                        new Search(), Long.MAX_VALUE, Types.TUPLE(Types.INT, Types.LONG, Types.STRING)),
                                WatermarkStrategy.noWatermarks(),
                                "searches")
                        .disableChaining();
        DataStream<Tuple3<Integer, Long, String>> words =
                searches.map(new Clean())
                        .returns(Types.TUPLE(Types.INT, Types.LONG, Types.STRING))
                        .name("clean")
                        .flatMap(new Split())
                        .returns(Types.TUPLE(Types.INT, Types.LONG, Types.STRING))
                        .name("split");
        table.createTemporaryView("words", table.fromDataStream(words).as("who", "at", "word"));
        table.executeSql(
                "CREATE TABLE counts (word STRING, n BIGINT, first_at BIGINT, last_at BIGINT, users DOUBLE) "
                        + "WITH ('connector' = 'blackhole')");
        table.executeSql(
                "INSERT INTO counts SELECT word, COUNT(*), MIN(`at`), MAX(`at`), AVG(CAST(who AS DOUBLE)) "
                        + "FROM words GROUP BY word");
    }

    /** Number → a search of three words; few words are in most searches. */
    public static final class Search implements GeneratorFunction<Long, Tuple3<Integer, Long, String>> {
        @Override
        public Tuple3<Integer, Long, String> map(Long number) {
            long bits = number * 0x9E3779B97F4A7C15L;
            String query = word(bits) + " " + word(bits * 31) + " " + word(bits * 961);
            return Tuple3.of((int) ((bits >>> 40) % USERS), number, query);
        }

        private static String word(long bits) {
            double share = (bits >>> 11) * 0x1.0p-53;
            return "w" + (int) (share * share * share * WORDS);
        }
    }

    /** Lower case, as every pipeline of texts begins. */
    public static final class Clean
            implements MapFunction<Tuple3<Integer, Long, String>, Tuple3<Integer, Long, String>> {
        @Override
        public Tuple3<Integer, Long, String> map(Tuple3<Integer, Long, String> search) {
            return Tuple3.of(search.f0, search.f1, search.f2.toLowerCase());
        }
    }

    /** A record per word. */
    public static final class Split
            implements FlatMapFunction<Tuple3<Integer, Long, String>, Tuple3<Integer, Long, String>> {
        @Override
        public void flatMap(
                Tuple3<Integer, Long, String> search, Collector<Tuple3<Integer, Long, String>> out) {
            int begin = 0;
            for (int end = search.f2.indexOf(' '); end >= 0; end = search.f2.indexOf(' ', begin)) {
                out.collect(Tuple3.of(search.f0, search.f1, search.f2.substring(begin, end)));
                begin = end + 1;
            }
            out.collect(Tuple3.of(search.f0, search.f1, search.f2.substring(begin)));
        }
    }
}
