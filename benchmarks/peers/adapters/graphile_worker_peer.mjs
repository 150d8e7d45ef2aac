// graphile-worker: one worker with the settings of its performance page; for single tasks without its batching.
import { Logger, makeWorkerUtils, runOnce } from "graphile-worker";
import pg from "pg";
import { PAYLOADS, TASKS, VARIANT, batches, each, proved, timed } from "./report.mjs";

const CONNECTIONS = 25;
const PRODUCERS = VARIANT === "single" ? 8 : 4; // more only wait for each other: each commit sends a NOTIFY
const batching = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));
const pgPool = new pg.Pool({ max: CONNECTIONS });
let ran = 0;

const utils = await makeWorkerUtils({ pgPool, logger });
await utils.migrate();
await timed("produce", () =>
  VARIANT === "single"
    ? each(PAYLOADS, PRODUCERS, (payload) => utils.addJob("bench", payload))
    : each(batches(), PRODUCERS, (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: "bench", payload })))),
);
const left = async () =>
  (await pgPool.query("SELECT count(*)::int AS number FROM graphile_worker.jobs")).rows[0].number;
await timed("drain", async () => {
  await runOnce({
    pgPool,
    logger,
    noHandleSignals: true,
    taskList: { bench: async () => void (ran += 1) },
    preset: { worker: { concurrentJobs: CONNECTIONS - 1, ...(VARIANT === "single" ? {} : batching) } },
  });
  while ((await left()) > 0); // its last deletes may still be under way
});
const stored = TASKS - (await left()); // a job that has ended is deleted
await utils.release();
await pgPool.end();
proved("graphile-worker", { ran, stored });
