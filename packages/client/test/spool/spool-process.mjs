// A process with a spool, for tests to end: node spool-process.mjs '{"directory": …, "durability": …, "do": …}'
// Prints a line each: "open", "+<name>" acknowledged, "-<name>" about to be done,
// "!<error> <name>" refused, "?<what>" trouble.
import cluster from 'node:cluster';
import fs from 'node:fs';
import { openSpool } from '../../dist/spool/disk-spool.js';

const { directory, durability, prefix, count, segmentBytes, key, ...wish } = JSON.parse(process.argv[2]);
const say = (line) => fs.writeSync(1, `${line}\n`);
if (wish.cluster && cluster.isPrimary) {
  // The spool belongs to the worker; this process runs without one.
  cluster.setupPrimary({ args: process.argv.slice(2) });
  cluster.fork().on('exit', () => say('worker ended'));
  await new Promise((resolve) => setTimeout(resolve, 60_000));
}
const spool = await openSpool({
  ...{ directory, durability, segmentBytes },
  ...(key && { key: Buffer.from(key, 'hex') }),
  onTrouble: (what, error) => say(`?${what} ${error}`),
});
say('open');

let named = 0;
function append() {
  const name = `${prefix}-${++named}`;
  const body = Buffer.from(JSON.stringify({ name, padding: 'x'.repeat((named * 37) % 2000) }));
  return spool.append('outcome', body).then(
    () => {
      say(`+${name}`);
      return true;
    },
    (error) => {
      say(`!${error.name} ${name}`);
      return false;
    },
  );
}

if (wish.do === 'append') {
  for (let i = 0; i < count; i++) await append();
  await spool.close();
} else if (wish.do === 'fill') {
  // Into a file system that fills up; then prints the stored events: "=<name>".
  for (let i = 0; i < 1200; i++) await append();
  await spool.close();
  const next = await openSpool({
    directory,
    durability,
    onTrouble: (what, error) => say(`?${what} ${error}`),
  });
  while (next.state.waiting > 0) {
    for (const event of await next.take(100, 1 << 20)) {
      say(`=${JSON.parse(Buffer.from(event.body)).name}`);
      next.done(event);
    }
  }
  await next.close();
} else if (wish.do === 'fill and be killed') {
  // And leaves no room for another byte.
  while (await append());
  const ballast = fs.openSync('ballast', 'w');
  try {
    for (const bytes = Buffer.alloc(512); ;) fs.writeSync(ballast, bytes);
  } catch {
    process.kill(process.pid, 'SIGKILL');
  }
} else if (wish.do === 'append and wait') {
  for (let i = 0; i < count; i++) await append();
  say('done');
  if (wish.cluster) process.kill(process.pid, 'SIGKILL');
  setInterval(() => undefined, 1000);
} else if (wish.do === 'exit') {
  for (let i = 0; i < count; i++) void append();
  // In the same turn of the event loop, or while the first write runs.
  if (wish.later) setImmediate(() => process.exit(0));
  else process.exit(0);
} else if (wish.do === 'throw') {
  for (let i = 0; i < count; i++) void append();
  throw new Error('a fault of the host application');
} else {
  // Until it is killed: events come, some are taken, and most of those are done.
  for (let worker = 0; worker < 8; worker++)
    void (async () => {
      for (;;) await append();
    })();
  void (async () => {
    for (;;) {
      for (const event of await spool.take(7, 1 << 20)) {
        if (event.position.offset % 3 === 0) spool.giveBack(event);
        else {
          say(`-${JSON.parse(Buffer.from(event.body)).name}`);
          spool.done(event);
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
  })();
}
