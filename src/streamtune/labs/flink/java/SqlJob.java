package streamtune.workload;

import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Runs a SQL script: one statement per argument, the last INSERT (or statement set) becomes the job. {@code SET
 * key=value}, without quotes, sets an option for the statements after it.
 */
public final class SqlJob {
    private static final String SET = "SET ";

    private SqlJob() {}

    public static void main(String[] statements) {
        TableEnvironment table = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        for (String statement : statements) {
            if (statement.startsWith(SET)) {
                int end = statement.indexOf('=');
                table.getConfig().set(statement.substring(SET.length(), end), statement.substring(end + 1));
            } else {
                table.executeSql(statement);
            }
        }
    }
}
