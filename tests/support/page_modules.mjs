// The program of page_modules.py: JSON on standard input, the answer as JSON on standard output.
import fs from "node:fs";
import vm from "node:vm";

const RUN_MS = 30_000;
console.log = console.error; // standard output is for the answer alone

function wrongSyntax(modules) {
  const wrong = {};
  for (const [name, text] of Object.entries(modules)) {
    try {
      new vm.SourceTextModule(text);
    } catch (error) {
      wrong[name] = String(error);
    }
  }
  return wrong;
}

async function run({ run: text, gateway, elements }) {
  const changed = elements.map(
    (name) =>
      new Promise((resolve) => {
        globalThis[name] = {
          set textContent(value) {
            if (value !== "") resolve([name, value]);
          },
        };
      }),
  );
  const address = `${gateway}/client.js`;
  const load = async (specifier) => {
    if (!/^https?:.*\/client\.js$/.test(specifier)) throw new Error(`there is no module ${specifier}`);
    const source = await (await fetch(address)).text();
    const initializeImportMeta = (meta) => { meta.url = address; };
    const module = new vm.SourceTextModule(source, { identifier: address, initializeImportMeta });
    await module.link(() => { throw new Error("client.js imports nothing"); });
    return module;
  };
  const module = new vm.SourceTextModule(text, { identifier: "page" });
  await module.link(load);
  await module.evaluate();
  return Object.fromEntries(await Promise.all(changed));
}

const question = JSON.parse(fs.readFileSync(0, "utf8"));
const late = setTimeout(() => {
  console.error(`the module did not write to each of ${question.elements} in ${RUN_MS} ms`);
  process.exit(1);
}, RUN_MS);
late.unref();
const answer = question.check ? wrongSyntax(question.check) : await run(question);
fs.writeSync(1, JSON.stringify(answer));
process.exit(0); // what is live would go on
