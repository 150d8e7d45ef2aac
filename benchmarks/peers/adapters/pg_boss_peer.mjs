// pg-boss: fetch() and complete(), which its work() is built on; that polls twice a second at most unless batches are full.
import pg from "pg";
import { PgBoss } from "pg-boss";
import { BATCH, PAYLOADS, VARIANT, batches, each, proved, timed } from "./report.mjs";

const CONNECTIONS = 32;
const batchSize = VARIANT === "single" ? 1 : BATCH;
const lanes = VARIANT === "single" ? CONNECTIONS : 8;
let ran = 0;

async function drain(boss) {
  for (;;) {
    const jobs = await boss.fetch("bench", { batchSize });
    if (jobs.length === 0) return;
    ran += jobs.length;
    await boss.complete("bench", jobs.map((job) => job.id));
  }
}

const boss = new PgBoss({ max: CONNECTIONS });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue("bench");
await timed("produce", () =>
  VARIANT === "single"
    ? each(PAYLOADS, lanes, (data) => boss.send("bench", data))
    : each(batches(), lanes, (payloads) => boss.insert("bench", payloads.map((data) => ({ data })))),
);
await timed("drain", () => Promise.all(Array.from({ length: lanes }, () => drain(boss))));
await boss.stop({ graceful: false });
const client = new pg.Client();
await client.connect();
const { rows } = await client.query(
  "SELECT count(*)::int AS number FROM pgboss.job WHERE state = 'completed' AND retry_count = 0",
);
await client.end();
proved("pg-boss", { ran, stored: rows[0].number });
