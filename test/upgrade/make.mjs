// Writes the stored data of this version, for the upgrade test of every later version:
//
//   node test/upgrade/make.mjs [DIRECTORY]
//
// The directory is test/upgrade/VERSION by default; what it had before is deleted. Builds first.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompressSync } from 'node:zlib';
import { PostgresServer, signed } from '../../packages/postgres/test/running/postgres-server.ts';
import { dump, pack } from './fixture.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
const out = path.resolve(process.argv[2] ?? path.join(import.meta.dirname, version));
const MAIN = path.join(ROOT, 'packages/collector/dist/main.js');
const PRELOAD = pathToFileURL(path.join(ROOT, 'test/net/preload.mjs')).href;
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'upgrade-'));
const at = (...names) => path.join(scratch, ...names);

/** The clock of the programs, from which the access log takes its year. */
const OLD_YEAR = Date.UTC(2025, 11, 31, 22);
const NEW_YEAR = Date.UTC(2026, 0, 2, 8);
const setClock = (instant) => fs.writeFileSync(at('clock'), String(instant));

let processes = 0;
/** @param isClocked false: with the clock of the machine, which a database has too. */
function environment(isClocked = true) {
  const env = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', TZ: 'UTC', COLLECTOR_MANAGEMENT_PORT: '0' };
  const seed = { NET_SEED: `${randomUUID()} ${processes++}`, NET_CLOCK: at('clock') };
  return isClocked ? { ...env, ...seed, NODE_OPTIONS: `--import=${PRELOAD}` } : env;
}

async function run(args, isClocked) {
  const options = { cwd: scratch, env: environment(isClocked), maxBuffer: 1 << 26 };
  return (await promisify(execFile)(process.execPath, [MAIN, ...args], options)).stdout;
}

/** A collector that listens. */
async function serve(args, isClocked) {
  const serving = [MAIN, 'serve', '--port', '0', ...args];
  const stdio = ['ignore', 'ignore', 'pipe'];
  const child = spawn(process.execPath, serving, { cwd: scratch, env: environment(isClocked), stdio });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  const ended = new Promise((resolve) => child.once('close', resolve));
  let port;
  while (port === undefined) {
    if (child.exitCode !== null) throw new Error(`the collector ended: ${stderr}`);
    await sleep(20);
    port = /"port":(\d+)[^\n]*"msg":"listening"/.exec(stderr)?.[1];
  }
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
  };
  return { stop, url: `http://127.0.0.1:${port}` };
}

const BASE = { protocol_version: '0.0.1', system_metadata: { hostname: 'ward-7' } };

/** The events of runs about persons: [kind, event]. */
function runs(instant, ...targets) {
  return targets.flatMap((target) => {
    const base = () => ({ event_id: randomUUID(), timestamp: new Date(instant).toISOString(), ...BASE });
    const begun = {
      ...base(),
      model_instance: { model_id: 'triage', model_version: '4.2' },
      user_identity: { caller_id: 'clinician-17', caller_type: 'clinician' },
      target_identity: { target_id: target, target_type: 'patient' },
      inputs: { prompt: 'Größe 1,62 m, Lactate 4.1 mmol/l. What next? 👍' },
    };
    const run_id = begun.event_id;
    const output = { output_uri: 'urn:output:1', summary: 'Order an ECG.', output_type: 'text' };
    const feedback = { feedback_type: 'rating', rating_value: 5, comment: 'helpful' };
    return [
      ['inference-start', begun],
      [
        'internal-artifact',
        { ...base(), run_id, artifact: { artifact_type: 'tool_call', artifact_uri: 'urn:a:1' } },
      ],
      ['human-output', { ...base(), run_id, output }],
      ['outcome', { ...base(), run_id, outcome: { outcome_type: 'validated', description: 'It was.' } }],
      ['user-feedback', { ...base(), run_id, feedback }],
    ];
  });
}

async function post({ url }, key, events) {
  for (const [kind, event] of events) {
    const headers = { 'X-API-Key': key, 'Content-Type': 'application/json' };
    const answer = await fetch(`${url}/event/${kind}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(event),
    });
    if (answer.status !== 201) throw new Error(`${kind}: ${answer.status} ${await answer.text()}`);
  }
}

const KEY = /cek_[a-z2-7]{12}_[\w-]{43}/;
async function keyFor(where, isClocked) {
  const args = ['--organisation', 'icu', '--permissions', 'all', '--note', 'upgrade', '--json'];
  return KEY.exec(await run(['keys', 'create', ...args, ...where], isClocked))[0];
}

/** The events as every later version must print them. */
async function eventsOf(where, isClocked) {
  const printed = await run(['events', ...where], isClocked);
  return printed
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
    .map(({ sequence, kind, organisation, event_id, run_id, received_at, body }) => ({
      ...{ sequence, kind, organisation, event_id, run_id, received_at, body },
    }));
}

function keep(name, directory) {
  pack(directory, path.join(out, `${name}.br`));
}

function keepExpected(name, value) {
  fs.writeFileSync(path.join(out, `${name}.json.br`), brotliCompressSync(JSON.stringify(value)));
}

const PATIENTS = Array.from({ length: 8 }, (_, i) => `patient-${i + 1}`);

/** Use over the end of a year; with encrypted payloads also holds, a policy, a plan and an erasure. */
async function dataDirectory(name, isEncrypted) {
  const where = ['--data-dir', name];
  const options = [...where, '--encryption', isEncrypted ? 'on' : 'off'];
  setClock(OLD_YEAR);
  const key = await keyFor(where);
  const revoked = await keyFor(where);
  await run(['keys', 'revoke', revoked.split('_')[1], ...where]);
  let collector = await serve(options);
  await post(collector, key, runs(OLD_YEAR, ...PATIENTS));
  if (isEncrypted) await protect(where);
  await eventsOf(where);
  await collector.stop();
  setClock(NEW_YEAR);
  collector = await serve(options);
  const acts = isEncrypted ? await erase(where) : {};
  await run(['backup', `${name}-backup`, ...(isEncrypted ? ['--keys-elsewhere'] : []), ...where]);
  await post(collector, key, runs(NEW_YEAR, 'patient-1', 'patient-9'));
  const expected = { key, revoked, ...acts, events: await eventsOf(where) };
  await collector.stop();
  keep(name, at(name));
  keep(`${name}-backup`, at(`${name}-backup`));
  keepExpected(name, expected);
}

/** @returns the option that names a patient. */
function subject(patient) {
  fs.writeFileSync(at(`${patient}.txt`), `${patient}\n`);
  return ['--subject-file', `${patient}.txt`];
}

async function protect(where) {
  await run(['hold', 'add', 'CASE-1', ...subject('patient-2'), ...where]);
  await run(['hold', 'add', 'CASE-2', ...subject('patient-3'), ...where]);
  const policy = { version: 1, name: 'ward', default: { keep: 'P10Y' } };
  fs.writeFileSync(at('policy.json'), JSON.stringify(policy));
  await run(['retention', 'policy', 'set', 'policy.json', ...where]);
}

/** Erases a patient, and plans to erase another. @returns the certificate, and the plan. */
async function erase(where) {
  const by = ['--by', 'upgrade'];
  const plan = (patient, file) => run(['erase', 'plan', ...subject(patient), '--out', file, ...by, ...where]);
  await run(['hold', 'release', 'CASE-2', ...where]);
  await plan('patient-4', 'plan.json');
  const apply = ['erase', 'apply', 'plan.json', '--reason', 'erasure-request', '--case', 'U-1', ...by];
  const certificate = JSON.parse(await run([...apply, '--json', '--wait', ...where]));
  await plan('patient-5', 'later.json');
  return { certificate, plan: fs.readFileSync(at('later.json'), 'utf8') };
}

/** Events that no collector has received. */
async function spools() {
  const instant = Date.UTC(2026, 0, 2);
  const sent = { node: runs(instant, 'patient-1'), python: runs(instant, 'patient-2') };
  // This script has just built it.
  const { openSpool } = await import('../../packages/client/dist/spool/disk-spool.js');
  const spool = await openSpool({ directory: at('node-spool'), durability: 'fsync' });
  for (const [kind, event] of sent.node) await spool.append(kind, Buffer.from(JSON.stringify(event)));
  await spool.close();
  keep('node-spool', at('node-spool'));
  const kinds = sent.node.map(([kind]) => kind);
  const lines = sent.python.map(([kind, event]) =>
    JSON.stringify([kinds.indexOf(kind), JSON.stringify(event)]),
  );
  const written = spawnSync('python3', ['-c', WRITE, at('python-spool')], {
    input: lines.join('\n'),
    env: { PATH: process.env.PATH, PYTHONPATH: path.join(ROOT, 'clients/python/src') },
    encoding: 'utf8',
  });
  if (written.status !== 0) throw new Error(`python3: ${written.stderr}`);
  keep('python-spool', at('python-spool'));
  keepExpected('spools', { node: sent.node, python: sent.python });
}

const WRITE = `
import json, sys
from clinical_events._spool import Spool
spool = Spool(sys.argv[1], on_trouble=print)
for line in sys.stdin:
    kind, body = json.loads(line)
    spool.append([(kind, 1767312000000, body.encode())])
spool.close()
`;

const serverThatLogs = () => PostgresServer.start({ log_statement: 'ddl', log_line_prefix: '' });

async function keepDatabase(name, server, schema) {
  const sql = await dump((text) => server.query(text), server.log, schema);
  fs.writeFileSync(path.join(out, `${name}.sql.br`), brotliCompressSync(sql));
}

/** A log in a database, its payload keys in another, its collector's data directory and a mirror. */
async function database() {
  const [server, keyServer] = [await serverThatLogs(), await serverThatLogs()];
  try {
    const store = ['--store', `${server.url()}?schema=log`];
    const where = [...store, '--data-dir', 'collector'];
    fs.mkdirSync(at('collector'), { mode: 0o700 });
    fs.writeFileSync(at('collector', 'kek'), `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
    const kek = ['--kek', `file:${at('collector', 'kek')}`];
    const encryption = ['--encryption', 'on', '--encryption-keys', `${keyServer.url()}?schema=keys`, ...kek];
    await run(['store', 'migrate', ...store, '--durability', 'local'], false);
    const key = await keyFor(where, false);
    const collector = await serve([...where, ...encryption], false);
    const sent = runs(Date.UTC(2026, 0, 2), ...PATIENTS.slice(0, 4));
    await post(collector, key, sent);
    await signed(server, 'log', sent.length);
    await run(['mirror', ...store, '--data-dir', 'mirror', '--once', ...kek], false);
    const events = await eventsOf(where, false);
    await collector.stop();
    await keepDatabase('database', server, 'log');
    await keepDatabase('database-keys', keyServer, 'keys');
    keep('database-collector', at('collector'));
    keep('mirror', at('mirror'));
    keepExpected('database', { key, events });
  } finally {
    await Promise.all([server.remove(), keyServer.remove()]);
  }
}

const built = spawnSync(process.execPath, ['scripts/build.mjs'], { cwd: ROOT, stdio: 'inherit' });
if (built.status !== 0) throw new Error('the packages cannot be built');
fs.rmSync(out, { recursive: true, force: true });
fs.mkdirSync(out, { recursive: true });
try {
  await dataDirectory('plain', false);
  await dataDirectory('encrypted', true);
  await spools();
  await database();
} finally {
  fs.rmSync(scratch, { recursive: true, force: true });
}
const sizes = fs.readdirSync(out).map((name) => fs.statSync(path.join(out, name)).size);
console.log(`${path.relative(ROOT, out)}: ${sizes.length} files, ${sizes.reduce((a, b) => a + b, 0)} bytes`);
