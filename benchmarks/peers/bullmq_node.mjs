// One measured run of BullMQ for Node: node bullmq_node.mjs '{"mode": ..., "port": ..., ...}'
// Prints one JSON line: {"seconds", "cpu_seconds", "count", "latencies_ms"}.
import { createRequire } from 'node:module';

const task = JSON.parse(process.argv[2]);
const { Queue, Worker } = createRequire(`${task.node_folder}/index.js`)('bullmq');
const connection = { host: '127.0.0.1', port: task.port, maxRetriesPerRequest: null };

function measure() {
  const start = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  return () => {
    const used = process.cpuUsage(cpu);
    return {
      seconds: Number(process.hrtime.bigint() - start) / 1e9,
      cpu_seconds: (used.user + used.system) / 1e6,
    };
  };
}

async function work() {
  let stop;
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const worker = new Worker(
    task.queue,
    async (job) => {
      stop ??= measure();
      if (task.sleep_ms) await new Promise((resolve) => setTimeout(resolve, task.sleep_ms));
      return job.data.n * 2;
    },
    { connection, concurrency: task.concurrency, autorun: false },
  );
  worker.on('completed', () => {
    if (++done === task.count) finish(stop());
  });
  worker.run();
  const result = await finished;
  await worker.close();
  return result;
}

async function add() {
  const queue = new Queue(task.queue, { connection });
  await queue.waitUntilReady();
  await queue.add('warm-up', { n: -1 });
  const latencies_ms = [];
  let next = 0;
  const stop = measure();
  if (task.mode === 'bulk') {
    for (let start = 0; start < task.count; start += 1000) {
      await queue.addBulk(Array.from({ length: 1000 }, (_, i) => ({ name: 'job', data: { n: start + i } })));
    }
  } else {
    const lane = async () => {
      while (next < task.count) {
        const n = next++;
        const begun = process.hrtime.bigint();
        await queue.add('job', { n });
        latencies_ms.push(Number(process.hrtime.bigint() - begun) / 1e6);
      }
    };
    await Promise.all(Array.from({ length: task.concurrency }, lane));
  }
  const result = { ...stop(), latencies_ms };
  await queue.close();
  return result;
}

const result = task.mode === 'work' ? await work() : await add();
// A pipe takes long output in parts: leave only after the last.
process.stdout.write(JSON.stringify({ count: task.count, latencies_ms: [], ...result }), () => process.exit(0));
