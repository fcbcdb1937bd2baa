// A process with a client, for tests to end: node capturing-process.mjs '{"url": …, "apiKey": …, "spool": …, "do": …}'
// Prints a line each: "+<event id>" is durable, "!<error>" refused, "=<events>" waiting at the end.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { createClient } from '../../dist/index.js';

const { do: wish, ...options } = JSON.parse(process.argv[2]);
const say = (line) => fs.writeSync(1, `${line}\n`);
const log = createClient({
  ...options,
  onTrouble: () => undefined,
  onRefused: ({ error }) => say(`!${error.name}`),
  onQuarantine: ({ refusal }) => say(`!${refusal.status}`),
});
const told = (captured) => captured.then(() => say(`+${captured.eventId}`));
const start = { model: { model_id: 'm' } };

if (wish === 'end') {
  const run = log.startRun(start);
  for (let i = 0; i < 300; i++) run.output({ summary: 'x'.repeat(i) });
} else if (wish === 'exit') {
  await log.ready();
  const run = log.startRun(start);
  for (let i = 0; i < 300; i++) run.output({ summary: 'x'.repeat(i) });
  process.exit(0);
} else if (wish === 'close') {
  log.startRun(start);
  const { waiting } = await log.close({ timeoutMs: 300 });
  say(`=${waiting}`);
} else if (wish === 'fill') {
  // More events than fit, and once they are sent, more at one time than fit.
  const summary = 'x'.repeat(1000);
  const all = [];
  for (let i = 0; i < 2000; i++) {
    all.push(told(log.run(randomUUID()).output({ summary })).catch(() => undefined));
    if (i % 20 === 0) await Promise.all(all);
  }
  await Promise.all(all);
  say('full');
  await log.flush(60_000);
  await Promise.all(Array.from({ length: 20 }, () => told(log.run(randomUUID()).output({ summary }))));
  await log.close();
} else {
  // Until it is killed.
  for (let worker = 0; worker < 4; worker++) {
    void (async () => {
      for (;;) {
        const run = log.startRun(start);
        await Promise.all([
          told(run.started),
          told(run.artifact({ artifact_type: 'text_chunk' }, { content: `${worker} ${run.id}` })),
          told(run.output({ summary: 'x'.repeat(Math.random() * 2000) })),
        ]);
      }
    })();
  }
}
