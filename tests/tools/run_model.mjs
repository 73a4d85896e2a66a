// Runs a model: node run_model.mjs FOLDER_OF_NODE_MODULES PACKAGE MODEL < feeds as JSON; writes its results as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const ARRAYS = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array };

const [folder, name, path] = process.argv.slice(2);
const ort = createRequire(join(resolve(folder), "package.json"))(name);
if (ort.env.wasm) ort.env.wasm.numThreads = 1;

const feeds = {};
for (const [input, { dtype, dims, data }] of Object.entries(JSON.parse(readFileSync(0)))) {
  const values = dtype === "int64" ? data.map(BigInt) : dtype === "bool" ? data.map(Number) : data;
  feeds[input] = new ort.Tensor(dtype, ARRAYS[dtype].from(values), dims);
}
const session = await ort.InferenceSession.create(readFileSync(path));
const results = await session.run(feeds);
const outputs = session.outputNames.map((output) => results[output]);
console.log("\n" + JSON.stringify(outputs.map((o) => ({ dtype: o.type, dims: o.dims, data: Array.from(o.data, Number) }))));
process.exit(0);
