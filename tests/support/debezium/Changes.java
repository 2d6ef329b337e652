// Debezium's embedded engine, until standard input ends. A line for each change: its topic, key and value, apart by tabs.
// With a second argument, "count": a line for each batch, how many changes have come; the changes are dropped.

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

public class Changes {
    private static long changes;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        boolean counts = arguments.length > 1 && arguments[1].equals("count");
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
                    if (!counts) {
                        out.print(event.destination() + "\t" + event.key() + "\t" + event.value() + "\n");
                    }
                    committer.markProcessed(event);
                }
                if (counts) {
                    out.print(changes + "\n");
                }
                out.flush();
                committer.markBatchFinished();
            })
            .build();
        ExecutorService executor = Executors.newSingleThreadExecutor();
        executor.execute(engine);
        while (System.in.read() >= 0) {
            continue;
        }
        engine.close();
        executor.shutdown();
        System.exit(0);
    }
}
