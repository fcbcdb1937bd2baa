/**
 * `npm run demo:ha`: runs three collectors on one log in PostgreSQL, with a primary and a synchronous standby on this
 * machine. It sends events to the three in turn, kills the primary and promotes the standby. Then it checks that every
 * acknowledged event is stored once, mirrors the log and verifies it.
 *
 *   --seconds N   seconds of load before and after the kill (default: 5)
 *   --json        print the result as one JSON object
 */
import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { Agent, request } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { PostgresServer } from '../packages/postgres/test/running/postgres-server.ts';

const { values: options } = parseArgs({
  options: { seconds: { type: 'string', default: '5' }, json: { type: 'boolean', default: false } },
});
const MAIN = path.join(import.meta.dirname, '../packages/collector/dist/main.js');
const COLLECTORS = 3;
const SENDERS = 48;
const KEY = /cek_[a-z2-7]{12}_\w+/;
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-ha-'));
const children = new Set();

function say(line) {
  if (!options.json) process.stdout.write(`${line}\n`);
}

function collector(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`collector ${args[0]} ended with ${status}: ${stderr}`);
  return stdout;
}

/** Starts a collector and returns once it listens. */
async function serve(number, store) {
  const args = ['serve', '--store', store, '--data-dir', path.join(directory, `collector-${number}`)];
  args.push('--signing-keys', path.join(directory, 'signing-keys'), '--port', '0', '--management', 'off');
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(child);
  let [out, log] = ['', ''];
  child.stdout.on('data', (text) => (out += text));
  child.stderr.on('data', (text) => (log += text));
  for (;;) {
    const port = /"port":(\d+)[^\n]*"msg":"listening"/.exec(log)?.[1];
    if (port !== undefined) return { child, port: Number(port), key: () => KEY.exec(out)?.[0] };
    if (child.exitCode !== null) throw new Error(`collector ${number} ended: ${log}`);
    await sleep(20);
  }
}

/** @returns the status, or 0 when there was no answer. */
function post(agent, port, key, body) {
  const headers = { 'X-API-Key': key, 'Content-Type': 'application/json', 'Content-Length': body.length };
  return new Promise((resolve) => {
    const asked = request(
      { agent, port, host: '127.0.0.1', method: 'POST', path: '/event/outcome', headers },
      (answer) => {
        answer.resume().on('end', () => resolve(answer.statusCode));
      },
    );
    asked.on('error', () => resolve(0));
    asked.end(body);
  });
}

/** The events that were sent, with their answers. */
const acknowledged = new Set();
const counts = { refused: 0 };
let lastAt = 0;
let longestGap = { ms: 0, from: 0 };
let stopped = false;

async function send(agent, number, collectors, key) {
  for (let turn = number; !stopped;) {
    const id = randomUUID();
    const event = {
      ...{ event_id: id, timestamp: new Date().toISOString(), protocol_version: '0.0.1' },
      system_metadata: { app_name: 'demo-ha' },
      parent_event_id: randomUUID(),
      outcome: { outcome_type: 'validated', description: 'as expected' },
    };
    const body = Buffer.from(JSON.stringify(event));
    // Each try goes to the next collector until the event is acknowledged.
    for (;;) {
      const status = await post(agent, collectors[turn++ % collectors.length].port, key, body);
      if (status === 201) {
        const now = performance.now();
        if (lastAt > 0 && now - lastAt > longestGap.ms) longestGap = { ms: now - lastAt, from: lastAt };
        lastAt = now;
        acknowledged.add(id);
        break;
      }
      counts.refused++;
      if (stopped) return;
      await sleep(50);
    }
  }
}

async function checkpoint(server) {
  const [row] = await server.query('SELECT note FROM collector.published');
  const [, size, root] = String(row?.note ?? '').split('\n');
  return `${size} entries, root ${root}`;
}

async function main() {
  const pause = Number(options.seconds) * 1000;
  say('Starting a primary and a standby that every commit waits for ...');
  const { primary, standby } = await PostgresServer.pair();
  const agent = new Agent({ keepAlive: true });
  try {
    const store = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
    say(`  collector store migrate --store ${store}`);
    collector('store', 'migrate', '--store', store);
    const first = await serve(1, store);
    while (first.key() === undefined) await sleep(20);
    const key = first.key();
    const collectors = [first];
    while (collectors.length < COLLECTORS) collectors.push(await serve(collectors.length + 1, store));
    say(
      `Three collectors listen on ${collectors.map(({ port }) => port).join(', ')}. Events are sent to them in turn.`,
    );
    const senders = Array.from({ length: SENDERS }, (_, i) => send(agent, i, collectors, key));
    await sleep(pause);
    say(`  ${acknowledged.size} acknowledged; the log is signed over ${await checkpoint(primary)}`);
    say('Killing the primary (SIGKILL) ...');
    longestGap = { ms: 0, from: 0 };
    await primary.stop('SIGKILL');
    const before = acknowledged.size;
    const promotedAt = performance.now();
    await standby.promote();
    say(`  the standby is promoted, ${Math.round(performance.now() - promotedAt)} ms after the kill`);
    // The new primary has no standby. Nothing is acknowledged until there is one, so make one, as an operator would.
    await primary.rebuildFrom(standby);
    say('  the old primary is the standby now');
    await sleep(pause);
    stopped = true;
    await Promise.all(senders);
    say(`  ${acknowledged.size} acknowledged, ${acknowledged.size - before} of them since`);
    await sleep(2500);
    const rows = await standby.query(
      `SELECT encode(substring(envelope FROM 15 FOR 16), 'hex')::uuid::text AS id, count(*)::int AS rows
       FROM collector.events GROUP BY 1`,
    );
    const stored = new Map(rows.map(({ id, rows: count }) => [id, count]));
    const lost = [...acknowledged].filter((id) => !stored.has(id)).length;
    const doubled = [...stored.values()].filter((count) => count > 1).length;
    const newest = await checkpoint(standby);
    for (const { child } of collectors) child.kill('SIGTERM');
    await Promise.all(collectors.map(({ child }) => new Promise((resolve) => child.once('exit', resolve))));
    const mirror = path.join(directory, 'mirror');
    collector('mirror', '--store', store, '--data-dir', mirror, '--once');
    const verdicts = [
      collector('verify', '--store', store, '--json'),
      collector('verify', '--data-dir', mirror, '--json'),
    ].map((text) => JSON.parse(text));
    const result = {
      ...{ acknowledged: acknowledged.size, since_failover: acknowledged.size - before, stored: stored.size },
      ...{ lost, doubled, refused: counts.refused, ms_without_201: Math.round(longestGap.ms) },
      ...{ intact: verdicts.map(({ intact }) => intact), mirrored: verdicts[1].entries },
    };
    if (options.json) process.stdout.write(`${JSON.stringify(result)}\n`);
    say(`
Acknowledged    ${result.acknowledged}
Stored          ${result.stored}
Lost            ${lost}
Doubled         ${doubled}
Without a 201   ${result.ms_without_201} ms (with the time in which the new standby was made)
Signed          ${newest}
Verified        database ${verdicts[0].intact ? 'INTACT' : 'NOT INTACT'}, mirror ${verdicts[1].intact ? 'INTACT' : 'NOT INTACT'}`);
    return lost === 0 && doubled === 0 && verdicts.every(({ intact }) => intact) ? 0 : 1;
  } finally {
    stopped = true;
    agent.destroy();
    for (const child of children) if (child.exitCode === null) child.kill('SIGKILL');
    await primary.remove();
    await standby.remove();
    fs.rmSync(directory, { recursive: true, force: true });
  }
}

process.exitCode = await main();
