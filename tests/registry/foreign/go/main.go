// franz-go's client of the registry, which Redpanda Console uses. Standard input has what it does; standard output the
// results.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

type order struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

type question struct {
	URL     string            `json:"url"`
	Read    map[string]string `json:"read"`
	Schemas map[string]string `json:"schemas"`
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	var asked question
	must(0, json.NewDecoder(os.Stdin).Decode(&asked))
	client := must(sr.NewClient(sr.URLs(asked.URL)))
	ctx := context.Background()
	results := map[string]any{
		"read":    map[string]any{"json": read(ctx, client, asked.Read["json"])},
		"written": map[string]any{"json": write(ctx, client, asked.Schemas["json"])},
		"calls":   calls(ctx, client, asked.Schemas["avro"]),
	}
	must(0, json.NewEncoder(os.Stdout).Encode(results))
}

func read(ctx context.Context, client *sr.Client, value string) order {
	var serde sr.Serde
	bytes := must(hex.DecodeString(value))
	id, _, err := serde.DecodeID(bytes)
	must(0, err)
	if schema := must(client.SchemaByID(ctx, id)); schema.Type != sr.TypeJSON {
		log.Fatalf("schema %d has the type %v", id, schema.Type)
	}
	serde.Register(id, order{}, sr.DecodeFn(json.Unmarshal))
	var found order
	must(0, serde.Decode(bytes, &found))
	return found
}

func write(ctx context.Context, client *sr.Client, schema string) string {
	made := must(client.CreateSchema(ctx, "go-value", sr.Schema{Schema: schema, Type: sr.TypeJSON}))
	var serde sr.Serde
	serde.Register(made.ID, order{}, sr.EncodeFn(json.Marshal))
	return hex.EncodeToString(must(serde.Encode(order{7, "Zoë"})))
}

func calls(ctx context.Context, client *sr.Client, schema string) map[string]any {
	found := map[string]any{}
	wanted := sr.Schema{Schema: schema}
	made := must(client.CreateSchema(ctx, "calls", wanted))
	found["version"] = made.Version
	found["by id"] = must(client.SchemaTextByID(ctx, made.ID)) == made.Schema.Schema
	found["usages"] = len(must(client.SchemaUsagesByID(ctx, made.ID)))
	found["looked up"] = must(client.LookupSchema(ctx, "calls", wanted)).Version
	found["versions"] = must(client.SubjectVersions(ctx, "calls"))
	found["all"] = len(must(client.AllSchemas(sr.WithParams(ctx, sr.SubjectPrefix("calls")))))
	found["references"] = len(must(client.SchemaReferences(ctx, "calls", 1)))
	found["compatible"] = must(client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), "calls", -1, wanted)).Is
	level := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "calls")[0]
	must(0, level.Err)
	found["level"] = level.Level.String()
	must(0, client.ResetCompatibility(ctx, "calls")[0].Err)
	var refused *sr.ResponseError
	if errors.As(client.Compatibility(ctx, "calls")[0].Err, &refused) {
		found["unset"] = errors.Is(refused.SchemaError(), sr.ErrSubjectLevelCompatibilityNotConfigured)
	}
	if errors.As(client.Mode(ctx, "calls")[0].Err, &refused) {
		found["unset mode"] = errors.Is(refused.SchemaError(), sr.ErrSubjectLevelModeNotConfigured)
	}
	found["contexts"] = must(client.Contexts(ctx))
	found["types"] = len(must(client.SupportedTypes(ctx)))
	found["deleted"] = must(client.DeleteSubject(ctx, "calls", sr.SoftDelete))
	found["deleted for good"] = must(client.DeleteSubject(ctx, "calls", sr.HardDelete))
	return found
}
