import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.RestService;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Config;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Metadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.RuleSet;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.annotation.JsonInclude;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumReader;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumWriter;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.avro.shaded.org.apache.avro.io.BinaryEncoder;
import org.apache.flink.avro.shaded.org.apache.avro.io.DecoderFactory;
import org.apache.flink.avro.shaded.org.apache.avro.io.EncoderFactory;
import org.apache.flink.formats.avro.registry.confluent.ConfluentSchemaRegistryCoder;

/** Confluent's Java client, and Flink's Avro format over it. Standard input has what it does; standard output the results. */
public class Client {
    private static final ObjectMapper JSON =
            new ObjectMapper().setSerializationInclusion(JsonInclude.Include.NON_EMPTY);

    public static void main(String[] arguments) throws Exception {
        JsonNode asked = JSON.readTree(System.in);
        RestService service = new RestService(asked.get("url").asText());
        CachedSchemaRegistryClient client = new CachedSchemaRegistryClient(service, 100);
        Map<String, Object> results = new LinkedHashMap<>();
        results.put("read", Map.of("avro", read(client, asked.get("read").get("avro").asText())));
        results.put("written", Map.of("avro", write(client, asked.get("schemas").get("avro").asText())));
        results.put("calls", calls(client, service, asked.get("schemas").get("avro").asText()));
        results.put("merged", merged(asked.get("merges")));
        System.out.println(JSON.writeValueAsString(results));
    }

    private static Map<String, Object> read(CachedSchemaRegistryClient client, String hex) throws Exception {
        ByteArrayInputStream bytes = new ByteArrayInputStream(HexFormat.of().parseHex(hex));
        Schema schema = new ConfluentSchemaRegistryCoder(client).readSchema(bytes);
        GenericRecord record =
                new GenericDatumReader<GenericRecord>(schema).read(null, DecoderFactory.get().binaryDecoder(bytes, null));
        return Map.of("id", record.get("id"), "name", record.get("name").toString());
    }

    private static String write(CachedSchemaRegistryClient client, String text) throws Exception {
        Schema schema = new Schema.Parser().parse(text);
        GenericRecord record = new GenericData.Record(schema);
        record.put("id", 7L);
        record.put("name", "Zoë");
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        new ConfluentSchemaRegistryCoder("java-value", client).writeSchema(schema, bytes);
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
        new GenericDatumWriter<GenericRecord>(schema).write(record, encoder);
        encoder.flush();
        return HexFormat.of().formatHex(bytes.toByteArray());
    }

    private static Map<String, Object> calls(CachedSchemaRegistryClient client, RestService service, String text)
            throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        AvroSchema schema = new AvroSchema(text);
        int id = client.register("calls", schema);
        found.put("subjects", client.getAllSubjectsByPrefix("calls"));
        found.put("versions", client.getAllVersions("calls"));
        found.put("latest", client.getLatestSchemaMetadata("calls").getVersion());
        found.put("same text", client.getSchemaById(id).equals(schema));
        found.put("version", client.getVersion("calls", schema));
        found.put("compatible", client.testCompatibility("calls", schema));
        found.put("compatibility", client.updateCompatibility("calls", "FULL"));
        Config config = new Config("NONE");
        config.setOverrideMetadata(new Metadata(null, Map.of("owner", "data"), null));
        client.updateConfig("calls", config);
        found.put("owner", client.getConfig("calls").getOverrideMetadata().getProperties().get("owner"));
        client.register("calls", new AvroSchema("\"long\""));
        found.put("by metadata", client.getLatestWithMetadata("calls", Map.of("owner", "data"), false).getVersion());
        client.deleteConfig("calls");
        found.put("mode", client.setMode("READONLY", "calls"));
        client.deleteMode("calls");
        found.put("global mode", client.getMode());
        found.put("types", service.getSchemaTypes());
        try {
            client.register("calls", new AvroSchema("\"string\""));
        } catch (RestClientException refused) {
            found.put("refused", List.of(refused.getStatus(), refused.getErrorCode()));
        }
        found.put("deleted", client.deleteSubject("calls"));
        found.put("deleted for good", client.deleteSubject("calls", true));
        return found;
    }

    private static List<Object> merged(JsonNode merges) throws Exception {
        List<Object> results = new ArrayList<>();
        for (JsonNode pair : merges) {
            Metadata metadata = Metadata.mergeMetadata(
                    JSON.treeToValue(pair.get(0).get("metadata"), Metadata.class),
                    JSON.treeToValue(pair.get(1).get("metadata"), Metadata.class));
            RuleSet rules = RuleSet.mergeRuleSets(
                    JSON.treeToValue(pair.get(0).get("ruleSet"), RuleSet.class),
                    JSON.treeToValue(pair.get(1).get("ruleSet"), RuleSet.class));
            results.add(Map.of("metadata", metadata, "ruleSet", rules));
        }
        return results;
    }
}
