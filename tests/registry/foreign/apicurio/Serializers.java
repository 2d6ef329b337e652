import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.DescriptorProtos.DescriptorProto;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto.Type;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.DescriptorValidationException;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Timestamp;
import com.google.protobuf.TimestampProto;
import io.apicurio.registry.rest.client.models.ProblemDetails;
import io.apicurio.registry.rest.client.models.RuleViolationProblemDetails;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.SchemaBuilder;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

/** Apicurio's serializers and deserializers. Standard input has what they do; standard output the results. */
public class Serializers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Object> CONFLUENT_PROTOBUF = Map.of(
            "apicurio.registry.serde.send-type-ref", "false",
            "apicurio.registry.serde.send-indexes", "true",
            "apicurio.registry.serde.read-type-ref", "false",
            "apicurio.registry.serde.read-indexes", "true",
            "apicurio.registry.deserializer.value.return-class", Order.class);
    private static Descriptor order;
    private static String url;

    /** Reads a message as a class that protoc makes does. */
    public static class Order {
        public static DynamicMessage parseFrom(InputStream bytes) throws IOException {
            return DynamicMessage.parseFrom(order, bytes);
        }
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode asked = JSON.readTree(System.in);
        url = asked.get("url").asText() + "/apis/registry/v3";
        byte[] descriptor = Base64.getDecoder().decode(asked.get("descriptor").asText());
        order = FileDescriptor.buildFrom(FileDescriptorProto.parseFrom(descriptor), new FileDescriptor[0])
                .findMessageTypeByName("Order");
        makeResource("order.json", asked.get("schemas").get("json").asText());
        Map<String, Object> results = new LinkedHashMap<>();
        results.put("read", read(asked.get("read")));
        results.put("written", written(asked.get("schemas").get("avro").asText()));
        results.put("calls", calls(asked));
        System.out.println(JSON.writeValueAsString(results));
        System.exit(0); // the threads of its HTTP client stay
    }

    private static Map<String, Object> read(JsonNode values) throws Exception {
        GenericRecord avro = read(new AvroKafkaDeserializer<>(), Map.of(), values.get("avro"));
        JsonNode json = read(new JsonSchemaKafkaDeserializer<>(), Map.of(), values.get("json"));
        DynamicMessage message = read(new ProtobufKafkaDeserializer<>(), CONFLUENT_PROTOBUF, values.get("protobuf"));
        return Map.of("avro", plain(avro), "json", json, "protobuf", plain(message));
    }

    private static Map<String, String> written(String schema) throws Exception {
        DynamicMessage message = DynamicMessage.newBuilder(order)
                .setField(order.findFieldByName("id"), 7L)
                .setField(order.findFieldByName("name"), "Zoë")
                .build();
        Map<String, Object> located = Map.of("apicurio.registry.artifact.schema.location", "order.json");
        return Map.of(
                "avro", write(new AvroKafkaSerializer<>(), Map.of(), "java-avro", avro(schema)),
                "json", write(new JsonSchemaKafkaSerializer<>(), located, "java-json", json()),
                "protobuf", write(new ProtobufKafkaSerializer<>(), CONFLUENT_PROTOBUF, "java-protobuf", message));
    }

    private static Map<String, Object> calls(JsonNode asked) throws Exception {
        GenericRecord order = avro(asked.get("schemas").get("avro").asText());
        Map<String, Object> found = new LinkedHashMap<>();
        Map<String, Object> latest =
                Map.of("apicurio.registry.auto-register", "false", "apicurio.registry.find-latest", "true");
        found.put("latest", write(new AvroKafkaSerializer<>(), latest, "python-avro", order));
        found.put("latest json", write(new JsonSchemaKafkaSerializer<>(), latest, "python-json", json()));
        Map<String, Object> lookUp = Map.of("apicurio.registry.auto-register", "false");
        found.put("by content", write(new AvroKafkaSerializer<>(), lookUp, "python-avro", order));
        Map<String, Object> first = Map.of("apicurio.registry.auto-register.if-exists", "FAIL");
        found.put("exists", refusal(() -> write(new AvroKafkaSerializer<>(), first, "python-avro", order)));
        found.put("unknown", refusal(() -> write(new AvroKafkaSerializer<>(), lookUp, "nowhere", order)));
        found.put("no id", refusal(() -> read(new AvroKafkaDeserializer<>(), Map.of(), JSON.valueToTree("0000009999"))));
        GenericRecord changed = new GenericData.Record(SchemaBuilder.record("Order").fields().requiredInt("id").endRecord());
        changed.put("id", 7);
        found.put("breaks", refusal(() -> write(new AvroKafkaSerializer<>(), Map.of(), "python-avro", changed)));
        Map<String, Object> withPassword = Map.of(
                "apicurio.registry.url", asked.get("guarded").asText() + "/apis/registry/v3",
                "apicurio.registry.auth.username", "anyone",
                "apicurio.registry.auth.password", asked.get("token").asText());
        found.put("password", write(new AvroKafkaSerializer<>(), withPassword, "python-avro", order));
        Map<String, Object> elsewhere = Map.of("apicurio.registry.artifact.group-id", "lab");
        found.put("group", refusal(() -> write(new AvroKafkaSerializer<>(), elsewhere, "python-avro", order)));

        Schema nested = new Schema.Parser().parse(asked.get("nested schema").asText());
        GenericRecord line = new GenericData.Record(nested.getField("line").schema());
        line.put("sku", "pen");
        GenericRecord basket = new GenericRecordBuilder(nested).set("id", 7L).set("line", line).build();
        found.put("nested", write(new AvroKafkaSerializer<>(), Map.of(), "java-nested", basket));
        for (String strategy : List.of("QualifiedRecordIdStrategy", "RecordIdStrategy", "TopicRecordIdStrategy")) {
            Map<String, Object> named = Map.of(
                    "apicurio.registry.artifact-resolver-strategy", "io.apicurio.registry.serde.avro.strategy." + strategy,
                    "apicurio.registry.artifact.group-id", "default",
                    "apicurio.registry.dereference-schema", "true");
            found.put(strategy, write(new AvroKafkaSerializer<>(), named, "java-named", basket));
        }
        GenericRecord read = read(new AvroKafkaDeserializer<>(), Map.of(), asked.get("nested"));
        found.put("nested read", JSON.readTree(read.toString()));
        Map<String, Object> globalIds = Map.of(
                "apicurio.registry.use-id", "globalId", "apicurio.registry.dereference-schema", "true");
        GenericRecord again = read(new AvroKafkaDeserializer<>(), globalIds, asked.get("nested"));
        found.put("dereferenced", JSON.readTree(again.toString()));
        found.put("imports", write(new ProtobufKafkaSerializer<>(), CONFLUENT_PROTOBUF, "java-imports", event()));
        return found;
    }

    private static <T> T read(Deserializer<T> deserializer, Map<String, Object> settings, JsonNode hex) {
        deserializer.configure(with(settings), false);
        return deserializer.deserialize("read", HexFormat.of().parseHex(hex.asText()));
    }

    private static <T> String write(Serializer<T> serializer, Map<String, Object> settings, String topic, T value) {
        serializer.configure(with(settings), false);
        return HexFormat.of().formatHex(serializer.serialize(topic, value));
    }

    private static Map<String, Object> with(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>();
        all.put("apicurio.registry.url", url);
        all.put("apicurio.registry.auto-register", "true");
        all.put("apicurio.registry.retry-count", "0");
        all.putAll(settings);
        return all;
    }

    private static Object refusal(Runnable call) {
        try {
            call.run();
            return "none";
        } catch (RuntimeException refused) {
            for (Throwable each = refused; each != null; each = each.getCause()) {
                if (each instanceof RuleViolationProblemDetails problem) {
                    return Map.of("status", problem.getStatus(), "name", problem.getName(), "title", problem.getTitle());
                }
                if (each instanceof ProblemDetails problem) {
                    return Map.of("status", problem.getStatus(), "name", problem.getName(), "title", problem.getTitle());
                }
            }
            return refused.toString();
        }
    }

    /** A message of a file that imports another one. */
    private static DynamicMessage event() throws DescriptorValidationException {
        FieldDescriptorProto.Builder at = FieldDescriptorProto.newBuilder()
                .setName("at").setNumber(1).setType(Type.TYPE_MESSAGE).setTypeName(".google.protobuf.Timestamp");
        FileDescriptorProto file = FileDescriptorProto.newBuilder()
                .setName("event.proto").setPackage("shop").setSyntax("proto3")
                .addDependency("google/protobuf/timestamp.proto")
                .addMessageType(DescriptorProto.newBuilder().setName("Event").addField(at))
                .build();
        FileDescriptor[] imported = {TimestampProto.getDescriptor()};
        Descriptor event = FileDescriptor.buildFrom(file, imported).findMessageTypeByName("Event");
        Timestamp time = Timestamp.newBuilder().setSeconds(9).build();
        return DynamicMessage.newBuilder(event).setField(event.findFieldByName("at"), time).build();
    }

    private static GenericRecord avro(String schema) {
        GenericRecord record = new GenericData.Record(new Schema.Parser().parse(schema));
        record.put("id", 7L);
        record.put("name", "Zoë");
        return record;
    }

    private static JsonNode json() {
        return JSON.createObjectNode().put("id", 7).put("name", "Zoë");
    }

    private static Map<String, Object> plain(GenericRecord record) {
        return Map.of("id", record.get("id"), "name", record.get("name").toString());
    }

    private static Map<String, Object> plain(DynamicMessage message) {
        return Map.of(
                "id", message.getField(order.findFieldByName("id")),
                "name", message.getField(order.findFieldByName("name")));
    }

    private static void makeResource(String name, String text) throws IOException {
        Path directory = Files.createTempDirectory("schemas");
        Files.writeString(directory.resolve(name), text);
        URL[] places = {directory.toUri().toURL()};
        Thread.currentThread().setContextClassLoader(new URLClassLoader(places, Serializers.class.getClassLoader()));
    }
}
