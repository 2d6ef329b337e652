import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.JsonNode;

/** Reads lines of [reader, writer], two schemas as texts; answers each with [text of the reader, whether it reads]. */
public class AvroJava {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode pair = json.readTree(line);
            Object[] answer;
            try {
                Schema reader = new Schema.Parser().parse(pair.get(0).asText());
                Schema writer = new Schema.Parser().parse(pair.get(1).asText());
                boolean reads = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType()
                    == SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE;
                answer = new Object[] {reader.toString(), reads};
            } catch (RuntimeException error) {
                answer = new Object[] {null, error.toString()};
            }
            System.out.println(json.writeValueAsString(answer));
        }
    }
}
