// Checks Vega-Lite specifications: `node specifications.mjs MODULES DIR`.
//
// Every DIR/NAME.vl.json is valid by the published JSON schema, loads nothing, compiles and draws
// without a warning, and the drawing has marks and no NaN. Writes DIR/NAME.vega.svg. MODULES is a
// folder with the npm packages vega, vega-lite and ajv.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [modules, folder] = process.argv.slice(2);
const require = createRequire(resolve(modules, "package.json"));
const Ajv = require("ajv");
const vega = require("vega");
const vegaLite = require("vega-lite");

const schema = JSON.parse(
  readFileSync(resolve(modules, "node_modules/vega-lite/build/vega-lite-schema.json")),
);
// The schema is of draft 7 and uses formats that only say which strings are colours and addresses.
const validate = new Ajv({ allErrors: false, strict: false, validateFormats: false }).compile(schema);

/** A logger that collects what Vega and Vega-Lite warn of. */
function collector(found) {
  const take = (...words) => {
    const text = words.map(String).join(" ");
    // Node has no window.
    if (!text.includes("Can not resolve event source: window")) found.push(text);
    return logger;
  };
  const ignore = () => logger;
  const logger = { level: ignore, error: take, warn: take, info: ignore, debug: ignore };
  return logger;
}

/** The problems of one specification; writes its drawing. */
async function problems(name) {
  const found = [];
  const spec = JSON.parse(readFileSync(resolve(folder, `${name}.vl.json`)));
  if (!validate(spec)) {
    const [first] = validate.errors;
    found.push(`not valid: ${first.instancePath} ${first.message}`);
  }
  const logger = collector(found);
  try {
    const compiled = vegaLite.compile(spec, { logger }).spec;
    const load = (address) => Promise.reject(new Error(found.push(`loads ${address}`)));
    const loader = { options: {}, load, sanitize: load, http: load, file: load };
    const view = new vega.View(vega.parse(compiled), { renderer: "none", logger, loader });
    const svg = await view.toSVG();
    writeFileSync(resolve(folder, `${name}.vega.svg`), svg);
    if (/\bNaN\b|\bundefined\b|\bInfinity\b/.test(svg)) {
      found.push("the drawing contains NaN, undefined or Infinity");
    }
    if (!/role="graphics-symbol"/.test(svg)) found.push("the drawing has no marks");
  } catch (error) {
    found.push(`can't be drawn: ${error.message}`);
  }
  return found;
}

const names = readdirSync(folder)
  .filter((file) => file.endsWith(".vl.json"))
  .map((file) => file.slice(0, -".vl.json".length));
let failed = 0;
for (const name of names) {
  const found = await problems(name);
  for (const problem of new Set(found)) console.log(`${name}: ${problem}`);
  failed += found.length > 0;
}
console.log(`${names.length} specifications, ${failed} with problems`);
process.exit(failed || !names.length ? 1 : 0);
