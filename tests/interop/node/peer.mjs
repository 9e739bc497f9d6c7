// A BullMQ process that does what the tests tell it: one JSON request a line on stdin, one JSON answer a line on stdout.
//
//   {"id": 1, "open": "Queue", "as": "q", "args": ["mail", {...}]}     makes an object of that class
//   {"id": 2, "on": "q", "call": "getJobCounts", "args": []}            calls one of its methods
//   {"id": 3, "on": "q", "job": "7", "call": "getState", "args": []}    calls a method of a job of that queue
//
// The answer is {"id", "value"} or {"id", "error"}. What an object emits arrives as {"from", "event", "args"}.
// The process ends when stdin does.
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { FlowProducer, Queue, QueueEvents, UnrecoverableError, Worker } from 'bullmq';

const [host, port, prefix] = process.argv.slice(2);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const objects = new Map();
const watch = process.env.ECHOMQ_TEST_TRACES ? await import('./traces.mjs') : undefined;
if (watch) objects.set('traces', watch.traces);

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

const FORWARDED = {
  Queue: ['error'],
  FlowProducer: ['error'],
  Worker: ['active', 'completed', 'failed', 'progress', 'stalled', 'error', 'drained', 'paused', 'lockRenewalFailed'],
  QueueEvents: [
    'added', 'waiting', 'active', 'completed', 'failed', 'delayed', 'progress', 'drained', 'paused', 'resumed',
    'removed', 'stalled', 'duplicated', 'deduplicated', 'debounced', 'retries-exhausted', 'waiting-children', 'cleaned',
    'invoice-sent', 'error',
  ],
};

// The job's data says what happens to it; tests/interop/processing.py does the same in Python.
async function work(job) {
  const plan = job.data ?? {};
  for (const row of plan.logs ?? []) await job.log(row);
  for (const step of plan.progress ?? []) await job.updateProgress(step);
  if (plan.takesMs) await pause(plan.takesMs);
  if (plan.unrecoverable) throw new UnrecoverableError(plan.unrecoverable);
  if (job.attemptsMade < (plan.failures ?? 0)) throw new Error(`attempt ${job.attemptsMade + 1} failed`);
  return 'returns' in plan ? plan.returns : { by: 'node', name: job.name };
}

function plain(value) {
  if (value instanceof Error) return value.message;
  return value === undefined ? null : value;
}

async function open({ open: kind, as, args }) {
  const [name, options = {}] = args;
  const settings = { connection, prefix, ...(watch && { telemetry: watch.telemetry }), ...options };
  const make = {
    Queue: () => new Queue(name, settings),
    Worker: () => new Worker(name, work, settings),
    QueueEvents: () => new QueueEvents(name, settings),
    FlowProducer: () => new FlowProducer(settings),
  };
  const object = make[kind]();
  for (const event of FORWARDED[kind]) {
    object.on(event, (...seen) => say({ from: as, event, args: seen.map(plain) }));
  }
  await object.waitUntilReady?.();
  objects.set(as, object);
  return null;
}

async function call({ on, job, call: method, args }) {
  const object = objects.get(on);
  const target = job === undefined ? object : await object.getJob(job);
  if (!target) throw new Error(`no job ${job}`);
  const given = args.map((argument) => (argument?.object ? objects.get(argument.object) : argument));
  return target[method](...given);
}

async function answer(line) {
  const request = JSON.parse(line);
  try {
    say({ id: request.id, value: plain(await (request.open ? open : call)(request)) });
  } catch (error) {
    say({ id: request.id, error: String(error?.message ?? error) });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on('line', answer);
lines.on('close', () => process.exit(0));
