// Debezium's embedded engine, whose changes are counted and dropped: a line with the count for each batch, until standard input ends.

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

public class Counted {
    private static long changes;
    private static long bytes;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .using((success, message, error) -> {
                if (!success) {
                    System.err.println(message + " " + error);
                }
            })
            .notifying((events, committer) -> {
                for (ChangeEvent<String, String> event : events) {
                    changes += 1;
                    bytes += event.value() == null ? 0 : event.value().length();
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
                System.out.println(changes);
            })
            .build();
        ExecutorService executor = Executors.newSingleThreadExecutor();
        executor.execute(engine);
        while (System.in.read() >= 0) {
            continue;
        }
        engine.close();
        executor.shutdown();
        System.exit(bytes > 0 ? 0 : 1);
    }
}
