// Appends to a stream with the protocol's own client, reads it, and follows it until a third message comes.
"use strict"

const { DurableStream, IdempotentProducer, stream } = require("@durable-streams/client")

async function main() {
  const { url } = JSON.parse(require("node:fs").readFileSync(0, "utf8"))
  const handle = await DurableStream.create({ url, contentType: "application/json" })
  const errors = []
  const producer = new IdempotentProducer(handle, "writer", { autoClaim: true, onError: (error) => errors.push(error) })
  for (const n of [1, 2]) producer.append(JSON.stringify({ n }))
  await producer.flush()
  const read = await (await stream({ url, offset: "-1", live: false })).json()

  const followed = []
  const live = await stream({ url, offset: "-1", live: "sse" })
  const three = new Promise((resolve) => {
    live.subscribeJson(async (batch) => {
      followed.push(...batch.items)
      if (followed.length >= 3) resolve()
    })
  })
  producer.append(JSON.stringify({ n: 3 }))
  await producer.flush()
  await three
  live.cancel()
  await producer.close()
  if (errors.length) throw errors[0]
  process.stdout.write(JSON.stringify({ read, followed }))
  process.exit(0)
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
