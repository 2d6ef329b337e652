// Debezium's embedded engine: one line for each change, its topic, key and value apart by tabs; until standard input ends.

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
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .using((success, message, error) -> {
                if (!success) {
                    System.err.println(message + " " + error);
                }
            })
            .notifying((events, committer) -> {
                for (ChangeEvent<String, String> event : events) {
                    out.print(event.destination() + "\t" + event.key() + "\t" + event.value() + "\n");
                    committer.markProcessed(event);
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
