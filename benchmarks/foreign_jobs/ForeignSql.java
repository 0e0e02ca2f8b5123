package foreign;

import java.util.concurrent.locks.LockSupport;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.functions.ScalarFunction;

/** SQL scripts with one function of their own: {@code WORK(value, microseconds)} waits and passes the value on. */
public final class ForeignSql {
    private ForeignSql() {}

    /** Arguments: name of the job, default parallelism, then one statement each. */
    public static void main(String[] arguments) {
        Configuration options = new Configuration();
        options.setString("pipeline.name", arguments[0]);
        options.setString("execution.checkpointing.interval", "5s");
        options.setString("pipeline.max-parallelism", "128");
        options.setString("parallelism.default", arguments[1]);
        TableEnvironment table =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(options).build());
        table.createTemporarySystemFunction("WORK", Work.class);
        for (int i = 2; i < arguments.length; i++) {
            table.executeSql(arguments[i]);
        }
    }

    /** Waits as a call to another system does. */
    public static final class Work extends ScalarFunction {
        public Long eval(Long value, Integer micros) {
            LockSupport.parkNanos(micros * 1000L);
            return value;
        }

        @Override
        public boolean isDeterministic() {
            return false;
        }
    }
}
