// One measured run of BullMQ for Node: node bullmq_node.mjs '{"mode": ..., "port": ..., ...}'
// Prints one JSON line: {"seconds", "cpu_seconds", "count", "latencies_ms", ...}.
import { createRequire } from 'node:module';
import { once } from 'node:events';

const task = JSON.parse(process.argv[2]);
const { FlowProducer, Queue, Worker } = createRequire(`${task.node_folder}/index.js`)('bullmq');
const connection = { host: '127.0.0.1', port: task.port, maxRetriesPerRequest: null };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

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

// A worker that counts: `finished` resolves with the time used once `count` results are stored.
function counting(count) {
  const state = { done: 0, late: [], rss: {} };
  state.finished = new Promise((resolve) => (state.resolve = resolve));
  state.worker = new Worker(
    task.queue,
    async (job) => {
      state.stop ??= measure();
      if (job.data.at) state.late.push(performance.timeOrigin + performance.now() - job.data.at);
      if (task.sleep_ms) await sleep(task.sleep_ms);
      return job.data.n * 2;
    },
    { connection, concurrency: task.concurrency, autorun: false },
  );
  state.worker.on('completed', () => {
    state.done++;
    if (task.marks?.includes(state.done)) state.rss[state.done] = Math.round(process.memoryUsage.rss() / 1024);
    if (state.done === count) state.resolve(state.stop());
  });
  return state;
}

async function work() {
  const state = counting(task.count);
  state.worker.run();
  const used = await state.finished;
  await state.worker.close();
  return { ...used, latencies_ms: state.late, rss_kib: state.rss };
}

async function serve() {
  const state = counting(-1);
  await state.worker.waitUntilReady();
  state.worker.run();
  const stop = measure();
  process.stdout.write('ready\n');
  await once(process.stdin, 'data');
  const { cpu_seconds } = stop();
  await state.worker.close();
  return { seconds: 0, cpu_seconds, done: state.done };
}

async function latency() {
  const state = counting(task.count + 5);
  state.worker.run();
  const queue = new Queue(task.queue, { connection });
  await queue.waitUntilReady();
  await sleep(500);
  for (let n = 0; n < task.count + 5; n++) {
    await queue.add('job', { n, at: performance.timeOrigin + performance.now() });
    while (state.done <= n) await sleep(2);
  }
  const used = await state.finished;
  await state.worker.close();
  await queue.close();
  return { ...used, latencies_ms: state.late.slice(5) };
}

async function watch() {
  const late = [];
  const worker = new Worker(
    task.queue,
    async (job) => {
      late.push(performance.timeOrigin + performance.now() - job.timestamp - (job.opts.delay ?? 0));
      return 0;
    },
    { connection, concurrency: task.concurrency },
  );
  await sleep(2000);
  late.length = 0;
  const stop = measure();
  await sleep(task.seconds * 1000);
  const used = stop();
  const noted = [...late];
  await worker.close();
  return { ...used, latencies_ms: noted, done: noted.length };
}

async function flow() {
  const children = Array.from({ length: task.count }, (_, n) => ({ name: 'child', queueName: task.queue, data: { n } }));
  const stop = measure();
  const producer = new FlowProducer({ connection });
  await producer.add({ name: 'parent', queueName: task.queue, data: {}, children });
  const add_seconds = stop().seconds;
  let resolve;
  const finished = new Promise((done) => (resolve = done));
  const worker = new Worker(
    task.queue,
    async (job) => {
      if (job.name === 'parent') resolve(stop());
      return 1;
    },
    { connection, concurrency: task.concurrency },
  );
  const used = await finished;
  await worker.close();
  await producer.close();
  return { ...used, add_seconds };
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

const modes = { work, serve, latency, watch, flow, add, bulk: add };
const result = await modes[task.mode]();
// A pipe takes long output in parts: leave only after the last.
process.stdout.write(JSON.stringify({ count: task.count, latencies_ms: [], ...result }) + '\n', () => process.exit(0));
