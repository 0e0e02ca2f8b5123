package streamtune.workload;

import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/** Runs a SQL script: one statement per argument, the last INSERT (or statement set) becomes the job. */
public final class SqlJob {
    private SqlJob() {}

    public static void main(String[] statements) {
        TableEnvironment table = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        for (String statement : statements) {
            table.executeSql(statement);
        }
    }
}
