// What an adapter gets from the driver, and how it reports back: one JSON object a line.
import { createRequire } from "node:module";

export const VARIANT = process.env.BENCH_VARIANT;
export const TASKS = Number(process.env.BENCH_TASKS);
export const BATCH = 100;
export const PAYLOADS = Array.from({ length: TASKS }, (_, n) => ({ n }));

export const say = (fields) => process.stdout.write(`${JSON.stringify(fields)}\n`);

// Measures a part of the run, `produce` or `drain`.
export async function timed(part, work) {
  const began = performance.now();
  await work();
  say({ part, seconds: (performance.now() - began) / 1000 });
}

// Runs `work` for each item, `width` at a time.
export async function each(items, width, work) {
  const waiting = items[Symbol.iterator]();
  const lane = async () => {
    for (const item of { [Symbol.iterator]: () => waiting }) await work(item);
  };
  await Promise.all(Array.from({ length: width }, lane));
}

export function batches() {
  const cut = [];
  for (let start = 0; start < TASKS; start += BATCH) cut.push(PAYLOADS.slice(start, start + BATCH));
  return cut;
}

export function proved(name, { ran, stored }) {
  say({ ran, stored, version: createRequire(import.meta.url)(`../node_modules/${name}/package.json`).version });
}
