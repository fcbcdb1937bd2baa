/**
 * People who look at runs, each with a session of their own, on a large log, while events arrive, a run is
 * erased and the collector makes its catalogue again. Afterwards each page has its entry in the access log.
 */
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Child, removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { collectorCommand, createKey, startCollector, stopCollector } from '../lib/collector.mjs';
import { demoLedger } from '../lib/demo-ledger.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { mebibytes, median, whole } from '../lib/numbers.mjs';
import { OpenLoop } from '../lib/open-loop.mjs';
import { usageOf } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';

const MAIN = path.resolve(import.meta.dirname, '../../packages/viewer/dist/main.js');
const PEOPLE = 100;
const ARRIVING_EVENTS = 2000;
/** Of ten pages, five are runs, four lists and one a report. */
const TURNS = ['run', 'list', 'run', 'list', 'run', 'report', 'run', 'list', 'run', 'list'];
/** A person reads a page before the next one. */
const READING_MS = 10_000;
const RUN_LINK = /href="(\/reviewer\/runs\/[0-9a-f-]{36}[^"]*)"/g;

const percentile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];

class Person {
  #agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  #cookie = '';

  constructor(port, name) {
    this.port = port;
    this.name = name;
  }

  /** @returns status, text and milliseconds of a page. */
  get(address) {
    const since = performance.now();
    const headers = { 'X-Remote-User': this.name, 'X-Remote-Groups': 'bench', Cookie: this.#cookie };
    return new Promise((resolve, reject) => {
      const where = { host: '127.0.0.1', port: this.port, path: address, agent: this.#agent, headers };
      http
        .get(where, (response) => {
          const [cookie] = response.headers['set-cookie'] ?? [];
          if (cookie !== undefined) this.#cookie = cookie.split(';', 1)[0];
          let text = '';
          response.setEncoding('utf8').on('data', (piece) => (text += piece));
          response.on('error', reject);
          response.on('end', () =>
            resolve({ status: response.statusCode, text, ms: performance.now() - since }),
          );
        })
        .on('error', reject);
    });
  }

  close() {
    this.#agent.destroy();
  }
}

async function startViewer(dataDir, stateDir) {
  const roles = path.join(stateDir, 'roles.json');
  const role = { role: 'reviewer', groups: ['bench'], organisations: '*' };
  fs.writeFileSync(roles, JSON.stringify({ roles: [role] }));
  const child = new Child('the viewer', process.execPath, [
    ...[MAIN, '--data-dir', dataDir, '--state-dir', stateDir, '--port', '0', '--roles', roles],
    ...['--auth', 'proxy:X-Remote-User', '--url', 'http://127.0.0.1:9'],
  ]);
  const listening = await child.json('stderr', ({ msg }) => msg === 'listening');
  await child.json('stderr', ({ msg }) => msg === 'the catalogue is ready');
  return { child, port: listening.port };
}

/** Looks at pages until the time is over. @returns the milliseconds of each kind, and refused pages. */
async function look(port, number, seconds) {
  const person = new Person(port, `person-${number}`);
  const seen = { run: [], list: [], report: [], refused: [] };
  let links = [];
  const until = performance.now() + seconds * 1000;
  await sleep(Math.random() * Math.min(READING_MS, seconds * 1000));
  for (let turn = number; performance.now() < until; turn++) {
    const kind = links.length === 0 ? 'list' : TURNS[turn % TURNS.length];
    const link = links[Math.floor(Math.random() * links.length)];
    const address = {
      run: link,
      list: `/reviewer/runs?page=${1 + (turn % 5)}`,
      report: '/reviewer/report?show=1',
    };
    const { status, text, ms } = await person.get(address[kind]);
    if (status === 200) seen[kind].push(ms);
    else seen.refused.push(`${kind} ${status}`);
    if (performance.now() >= until) break;
    if (kind === 'list')
      links = [...text.matchAll(RUN_LINK)].map(([, found]) => found.replaceAll('&amp;', '&'));
    await sleep(READING_MS / 2 + Math.random() * READING_MS);
  }
  person.close();
  return seen;
}

/** Erases a run, and lets the collector make its own catalogue again. */
async function disturb(dataDir, scratch) {
  const listed = await collectorCommand('runs', '--data-dir', dataDir, '--limit', '1', '--json');
  const { record_id: run } = JSON.parse(listed);
  const plan = path.join(scratch, 'plan.json');
  const of = ['--data-dir', dataDir, '--by', 'bench'];
  await collectorCommand('erase', 'plan', ...of, '--run', run, '--out', plan);
  await collectorCommand('erase', 'apply', plan, ...of, '--reason', 'test-data', '--case', 'bench');
  fs.rmSync(path.join(dataDir, 'catalogue'), { recursive: true, force: true });
}

/** The looks in the access log, by command. */
function looksIn(dataDir) {
  const looks = {};
  for (const line of fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8').split('\n')) {
    if (line === '') continue;
    const { command, state } = JSON.parse(line);
    if (state === 'begun') looks[command] = (looks[command] ?? 0) + 1;
  }
  return looks;
}

export async function viewer({ options, say, print }) {
  const scratch = temporaryDirectory(options.scratch, 'viewer');
  const directory = await demoLedger(options, options.events, say);
  const { key } = await createKey(directory);
  const collector = await startCollector(directory, key);
  say('the viewer makes its catalogue');
  const since = performance.now();
  const { child, port } = await startViewer(directory, scratch);
  const making = (performance.now() - since) / 1000;
  const before = looksIn(directory);
  say(`${PEOPLE} people look for ${options.seconds} s`);
  const loop = new OpenLoop(collector.port, { sender: { key, connections: 16 } });
  const arriving = loop.step(options.seconds, { sender: ARRIVING_EVENTS });
  const disturbing = sleep(options.seconds * 250).then(() => disturb(directory, scratch));
  // It is awaited after the people.
  disturbing.catch(() => undefined);
  const seen = await Promise.all(
    Array.from({ length: PEOPLE }, (_, number) => look(port, number, options.seconds)),
  );
  await Promise.all([arriving, disturbing]);
  const { peak } = usageOf(child.pid);
  await loop.stop();
  await child.stop();
  await stopCollector(collector);
  const after = looksIn(directory);
  const refused = seen.flatMap((each) => each.refused);
  const kinds = { run: 'viewer run', list: 'viewer runs', report: 'viewer report' };
  const rows = Object.entries(kinds).map(([kind, command]) => {
    const times = seen.flatMap((each) => each[kind]).toSorted((a, b) => a - b);
    const recorded = (after[command] ?? 0) - (before[command] ?? 0);
    return {
      kind,
      pages: times.length,
      recorded,
      p50: median(times),
      p95: percentile(times, 0.95),
      max: times.at(-1),
    };
  });
  await collectorCommand('verify', '--data-dir', directory);
  removeDirectory(scratch);
  if (options.dataDir === undefined) removeDirectory(directory);
  print(
    `\n${table([
      ['Page', 'sent', 'in the access log', 'p50 ms', 'p95 ms', 'max ms'],
      ...rows.map(({ kind, pages, recorded, p50, p95, max }) => [
        kind,
        whole(pages),
        whole(recorded),
        whole(p50),
        whole(p95),
        whole(max),
      ]),
    ])}\nmaking the catalogue: ${making.toFixed(1)} s; peak ${mebibytes(peak)} MiB; not shown: ${refused.length} ${[...new Set(refused)].join(', ')}`,
  );
  const of = (wanted) => rows.find(({ kind }) => kind === wanted);
  const figures = { 'viewer/run': [of('run').p95], 'viewer/list': [of('list').p95] };
  print(`\n${figuresTable(figures)}`);
  const unrecorded = rows.filter(({ pages, recorded }) => pages !== recorded).length;
  return { rows, making, refused, figures, failures: refused.length + unrecorded };
}
