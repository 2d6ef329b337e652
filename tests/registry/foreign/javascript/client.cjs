// Confluent's JavaScript client and serializers. Standard input has what it does; standard output the results.
const { createFileRegistry, create, fromBinary, createMutableRegistry } = require("@bufbuild/protobuf");
const { FileDescriptorProtoSchema } = require("@bufbuild/protobuf/wkt");
const {
  AvroDeserializer, AvroSerializer, JsonDeserializer, JsonSerializer, ProtobufDeserializer, ProtobufSerializer,
  SchemaRegistryClient, SerdeType,
} = require("@confluentinc/schemaregistry");

const ORDER = { id: 7, name: "Zoë" };

async function main(asked) {
  const client = new SchemaRegistryClient({ baseURLs: [asked.url] });
  const file = fromBinary(FileDescriptorProtoSchema, Buffer.from(asked.descriptor, "base64"));
  const message = createFileRegistry(file, () => undefined).getMessage("shop.Order");
  const serializers = {
    avro: [AvroSerializer, AvroDeserializer, { useLatestVersion: true }, ORDER],
    json: [JsonSerializer, JsonDeserializer, { useLatestVersion: true }, ORDER],
    protobuf: [
      ProtobufSerializer, ProtobufDeserializer,
      { autoRegisterSchemas: true, registry: createMutableRegistry(message) },
      create(message, { id: 7n, name: "Zoë" }),
    ],
  };
  const results = { read: {}, written: {}, calls: {} };
  for (const [format, [Serializer, Deserializer, options, value]] of Object.entries(serializers)) {
    const read = await new Deserializer(client, SerdeType.VALUE, {}).deserialize("python", Buffer.from(asked.read[format], "hex"));
    results.read[format] = { id: Number(read.id), name: read.name };
    const topic = `javascript-${format}`;
    if (options.useLatestVersion) {
      await client.register(`${topic}-value`, { schemaType: format.toUpperCase(), schema: asked.schemas[format] });
    }
    const bytes = await new Serializer(client, SerdeType.VALUE, { autoRegisterSchemas: false, ...options }).serialize(topic, value);
    results.written[format] = bytes.toString("hex");
  }
  const avro = { schemaType: "AVRO", schema: asked.schemas.avro };
  const place = { resourceName: "t", resourceNamespace: "n", resourceId: "i", resourceType: "topic" };
  const calls = results.calls;
  const id = await client.register("calls", avro);
  calls.same = (await client.getBySubjectAndId("calls", id)).schema === (await client.getLatestSchemaMetadata("calls")).schema;
  calls.version = await client.getVersion("calls", avro, false);
  calls.versions = await client.getAllVersions("calls");
  calls.subjects = (await client.getAllSubjects()).includes("calls");
  calls.compatible = await client.testCompatibility("calls", 1, avro);
  calls.compatibility = await client.updateCompatibility("calls", "FULL");
  calls.config = (await client.getConfig("calls")).compatibilityLevel;
  await client.createAssociation({ ...place, associations: [{ subject: "calls", associationType: "value" }] });
  calls.association = (await client.getAssociationsByResourceName("t", "-", "topic", ["value"], null, 0, -1))[0].subject;
  await client.deleteAssociations("i", "topic", ["value"], false);
  calls.deleted = await client.deleteSubject("calls", false);
  process.stdout.write(JSON.stringify(results));
}

main(JSON.parse(require("fs").readFileSync(0, "utf8"))).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
