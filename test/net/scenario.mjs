// The steps of a side, from an empty directory to the last answer. Both sides take the same steps with the same names.
import fs from 'node:fs';
import { DAMAGES } from './damages.mjs';
import { demoRequests, event, idOf, oddRequests, storedOf } from './events.mjs';
import { promised, send } from './sending.mjs';
import { listing } from './side.mjs';
import { smallSegments, tinySegments } from './sides.mjs';

const HOUR = 3_600_000;
/** Events between two readings of the clock, and how many wait for an answer at most. */
const GROUP = 400;
const WINDOW = 48;
const KEYS = {
  demo: '--organisation demo --permissions all',
  ward: '--organisation ward --permissions all --note a-ward',
  full: '--organisation demo --permissions all --profile full',
  outcomes: '--organisation demo --permissions outcome --expires 90d',
  revoked: '--organisation ward --permissions all',
  rotated: '--organisation ward --permissions all --rate-limit 1000/s',
};
const FORMATS = ['ndjson', 'json', 'csv', 'parquet', 'fhir', 'otlp', 'prov'];
/** The filters of runs and records. Days are those of the demonstration. */
const FILTERS = {
  'sender period': '--since 2025-12-10 --until 2026-01-02 --clock sender',
  model: '--model sepsis-abstractor@3.0',
  organisation: '--organisation ward',
  incomplete: '--only incomplete',
};
const RUN_FILTERS = {
  target: '--target patient-0406',
  user: '--user clinician-1',
  app: '--app net',
  conflict: '--only contradictory',
  failed: '--only failed',
  'no outcome': '--outcome none',
  contradicted: '--outcome contradicted',
  'thumbs up': '--feedback thumbs-up',
  'thumbs down': '--feedback thumbs-down',
  'no outcome for long': '--outcome none:10d',
};
const BYTES = { how: 'bytes' };
const FINDINGS = { how: 'findings' };
const VERDICT = { how: 'verdict' };

/** The events, for both sides: requests, and the events of proofs and readings. */
export class Script {
  constructor(lines) {
    this.demo = demoRequests(lines);
    this.odd = oddRequests(this.demo);
    const starts = this.demo.flatMap(({ kind, body }) =>
      kind === 'inference-start' ? [JSON.parse(body)] : [],
    );
    this.runs = starts.map((start) => ({
      run: start.run_id ?? start.event_id,
      target: start.target_identity.target_id,
    }));
    this.ids = {
      first: this.runs[0].run,
      nested: idOf('nested 1'),
      thumb: idOf('thumb 3'),
      upper: idOf('upper run'),
    };
    /** An event that is erased alone. */
    this.single = this.#at(0.7).id;
    this.proved = { first: this.#at(0), middle: this.#at(0.5), last: this.#at(1) };
  }

  #at(share) {
    const body = this.demo[Math.floor((this.demo.length - 1) * share)].body.toString();
    return { id: JSON.parse(body).event_id, body };
  }
}

/** A log: its steps have its name. */
class Situation {
  keys = {};
  /** Requests that were sent. */
  sent = 0;

  constructor(side, name, dir = name) {
    Object.assign(this, { side, name, dir, log: `--data-dir ${dir}` });
  }

  /** @param command without the options that say where the log is. @param where these, if they are others. */
  run(what, command, { where = this.log, ...options } = {}) {
    return this.side.run(`${this.name}: ${what}`, `${command} ${where}`, options);
  }

  json(what, command, options = {}) {
    return this.run(what, `${command} --json`, { how: 'json', ...options });
  }

  keep(what, answer, how) {
    this.side.keep(`${this.name}: ${what}`, answer, how);
  }

  async serve(what, more = '', size = smallSegments) {
    const { options, environment } = size;
    return this.side.serve(`${this.name}: ${what}`, `${this.log} ${more} ${options}`, environment);
  }

  async makeKeys() {
    for (const [name, args] of Object.entries(KEYS)) {
      this.keys[name] = JSON.parse(await this.json(`key ${name}`, `keys create ${args}`));
    }
    const idOfKey = (name) => this.keys[name].key.slice('cek_'.length).split('_')[0];
    await this.json('key is revoked', `keys revoke ${idOfKey('revoked')}`);
    await this.json('key is rotated', `keys rotate ${idOfKey('rotated')} --overlap 0`);
    await this.run('no such key', 'keys revoke aaaaaaaaaaaa');
    await this.json('keys', 'keys list');
  }

  keyOf = (name = 'demo') => this.keys[name]?.key ?? name;

  /** Groups of requests, between which the clock advances. @returns the answers. */
  async post(port, requests, window = WINDOW) {
    const answers = [];
    for (let at = 0; at < requests.length; at += GROUP) {
      answers.push(...(await send(port, requests.slice(at, at + GROUP), this.keyOf, window)));
      this.side.advance(6 * HOUR);
    }
    this.sent += requests.length;
    return answers;
  }

  /** Sends all events. @returns how many are stored. */
  async postAll(port, script, most = Infinity) {
    const requests = script.demo.slice(0, most);
    const answers = await this.post(port, requests);
    this.#keepAnswers('answers', answers);
    for (const [name, group] of Object.entries(script.odd)) {
      const own = await this.post(port, group, 1);
      this.#keepAnswers(`answers to ${name}`, own);
      requests.push(...group);
      answers.push(...own);
    }
    return storedOf(requests, answers, (key = 'demo') => KEYS[key].split(' ')[1]);
  }

  #keepAnswers(what, answers) {
    this.keep(what, { text: answers.map((answer) => JSON.stringify(promised(answer))).join('\n') });
  }

  async keepMetrics(management) {
    const text = await (await fetch(`http://127.0.0.1:${management}/metrics`)).text();
    const names = text.split('\n').flatMap((line) => {
      if (line.startsWith('# TYPE')) return [line];
      const [, name, labels = ''] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? [];
      return name === undefined ? [] : [`${name} ${labels.replaceAll(/="(?:[^"\\]|\\.)*"/g, '')}`];
    });
    this.keep('metric names', { text: [...new Set(names)].sort().join('\n') });
  }

  /** The most frequent readings of events, runs and records. */
  async read(ids, formats = FORMATS) {
    await this.run('events', 'events', BYTES);
    await this.json('runs', 'runs --limit all');
    for (const format of formats) await this.run(`records ${format}`, `records --format ${format}`, BYTES);
    await this.json('report', `report --out ${this.name}.html`);
    for (const [name, id] of Object.entries(ids)) {
      await this.run(`run ${name}`, `records --run ${id} --format text --full`, BYTES);
      await this.run(`events of ${name}`, `events --run ${id}`, BYTES);
    }
  }

  /** The same by every option. */
  async readByOptions() {
    const [since, until] = [10, 2].map((days) => new Date(this.side.now - days * 24 * HOUR).toISOString());
    const filters = { ...FILTERS, period: `--since ${since} --until ${until}` };
    for (const [name, args] of Object.entries({ ...filters, ...RUN_FILTERS }))
      await this.json(`runs, ${name}`, `runs --limit all ${args}`);
    for (const [name, args] of Object.entries(filters))
      await this.run(`records, ${name}`, `records ${args}`, BYTES);
    await this.run('runs as CSV', 'runs --limit all --format csv', BYTES);
    await this.run('runs as a table', 'runs --only contradictory');
    await this.run('records after', `records --after ${Math.floor(this.sent * 0.8)}`, BYTES);
    await this.run('records by day', `records --format parquet --out ${this.dir}-days/`);
    this.keep('records by day', { text: listing(this.side.path(`${this.dir}-days`)) });
    await this.run('events, period', `events ${filters.period} --kind outcome`, BYTES);
    await this.run('no such event', `events --event ${idOf('no such event')}`);
    await this.run('no such run', `records --run ${idOf('no such run')}`);
    await this.json(
      'report, sender period',
      `report --out ${this.dir}-senders.html ${FILTERS['sender period']}`,
    );
  }

  /** Proofs of events, and the checks of changed ones. @param events by name; an erased one has no body. */
  async prove(events) {
    const key = JSON.parse(await this.json('signing keys', 'signing-key show')).key;
    this.side.write(`${this.name}.vkey`, `${key}\n`);
    for (const [name, { id, body }] of Object.entries(events)) {
      const file = `${this.name}-${name}.proof`;
      await this.run(`proof of ${name}`, `proof ${id} --organisation demo --out ${file}`);
      if (fs.existsSync(this.side.path(file))) this.keep(`proof of ${name}, bytes`, { file }, 'format');
      const check = `${file} --key ${this.name}.vkey${body === undefined ? '' : ' --event -'}`;
      await this.json(`check of ${name}`, `check-proof ${check}`, { ...VERDICT, where: '', input: body });
      if (body === undefined) continue;
      await this.run(`check of ${name}, changed`, `check-proof ${check}`, { where: '', input: `${body} ` });
    }
    await this.run('proof of nothing', `proof ${idOf('no such event')}`);
    this.keep('checkpoint, bytes', { file: `${this.dir}/checkpoints/latest` }, 'format');
  }

  async verify() {
    await this.json('verify', 'verify', FINDINGS);
    await this.json('doctor', 'doctor', FINDINGS);
  }

  /**
   * Directories that are made from the log. Their paths are in the access log and differ between the sides, so the log
   * gets no more entries about it.
   */
  async copies(isEncrypted) {
    const tiles = `${this.name}-tiles`;
    await this.json('tiles', `proof --tiles ${tiles}`, VERDICT);
    if (fs.existsSync(this.side.path(tiles)))
      this.keep('tiles, bytes', { text: listing(this.side.path(tiles)) }, 'format');
    const [backup, copied] = [`${this.name}-backup`, `${this.name}-copied-keys`];
    const restored = { where: `--data-dir ${this.name}-restored` };
    await this.json('backup', `backup ${backup}${isEncrypted ? ' --keys-elsewhere' : ''}`, VERDICT);
    await this.json('backup, verified', 'verify', { ...FINDINGS, where: `--data-dir ${backup}` });
    if (isEncrypted) {
      fs.mkdirSync(this.side.path(copied));
      await this.run('keys copied', `encryption-keys copy ${copied} --expires 14d`);
    }
    const restore = isEncrypted ? `${backup} --encryption-keys ${copied} --key ${this.name}.vkey` : backup;
    await this.json('restore', `restore ${restore}`, { ...VERDICT, ...restored });
    await this.run('restore again', `restore ${restore}`, restored);
    await this.run('restored events', 'events', { ...BYTES, ...restored });
    await this.json('restored, verified', 'verify', { ...FINDINGS, ...restored });
  }

  /** Plans an erasure, and applies it. @returns the output. */
  async erase(what, args, reason = 'erasure-request') {
    const file = `${this.name}-${what.replaceAll(' ', '-')}-plan.json`;
    const printed = await this.run(`${what}, planned`, `erase plan ${args} --by net --out ${file}`);
    const [, count = '0'] = /^(\d+) events? of \d+ runs? marked/m.exec(printed) ?? [];
    this.keep(`${what}, how many events`, { text: count });
    return this.run(what, `erase apply ${file} --reason ${reason} --case NET-1 --by net --json`, VERDICT);
  }
}

/** Makes the log and its keys. */
async function begin(situation, options, size) {
  await (await situation.serve('serve, empty', options, size)).stop();
  await situation.makeKeys();
  await situation.run('nothing stored', 'events');
}

/** Ordinary use: events arrive, are read and proved. @param meanwhile what is done beside the collector. */
async function live(situation, script, { options, formats, meanwhile }) {
  await begin(situation, options);
  const collector = await situation.serve('serve', options);
  await situation.postAll(collector.port, script);
  await meanwhile?.(collector);
  await situation.keepMetrics(collector.management);
  await collector.stop();
  await situation.read(script.ids, formats);
  // The log gets a head of the access log. Earlier readings have the same words in it at both sides.
  await (await situation.serve('serve again')).stop();
  await situation.verify();
  await situation.prove(script.proved);
}

/** What is stored already, conflicts and faults; and one new event by itself, because lines are under way together. */
async function imports(situation, script, { port }) {
  const { side } = situation;
  const lines = [
    ...script.demo.slice(0, 500),
    ...script.odd.conflicts,
    ...script.odd['odd JSON'].slice(0, 5),
  ];
  const file = lines.map(({ kind, body }) => JSON.stringify({ kind, body: body.toString() }));
  side.write('import.ndjson', [...file, 'no JSON', ''].join('\n'));
  const input = JSON.stringify({ kind: 'outcome', event: event('outcome', 'imported', 'imported') });
  const environment = { COLLECTOR_KEY: situation.keyOf('demo') };
  const where = `--organisation demo --url http://127.0.0.1:${port}`;
  await situation.json('import', 'import import.ndjson', { where, environment });
  await situation.json('import of one', 'import -', { where, environment, input });
  situation.keep('rejected lines', { file: 'import.ndjson.rejects.ndjson' }, 'sorted');
  await situation.json('check of the file', 'import --check import.ndjson', {
    where: '',
  });
  await situation.json('configuration', 'serve --check', VERDICT);
}

export async function plain(side, script) {
  const situation = new Situation(side, 'plain');
  const meanwhile = (collector) => imports(situation, script, collector);
  await live(situation, script, { options: '--encryption off', meanwhile });
  await situation.readByOptions();
  await situation.copies(false);
}

/** Encrypted, and then erased: runs, a hold, a policy, late events. */
export async function encrypted(side, script) {
  const situation = new Situation(side, 'encrypted');
  const began = side.now;
  await live(situation, script, { options: '--encryption on', formats: ['ndjson'] });
  await situation.json('keys of payloads', 'encryption-keys status', VERDICT);

  const erased = Object.assign(new Situation(side, 'erased', 'encrypted'), { keys: situation.keys });
  fs.mkdirSync(side.path('mirrored-keys'));
  // The access log gets this path, and both sides must have the same one.
  await erased.run('keys mirrored', 'encryption-keys copy --mirror /proc/self/cwd/mirrored-keys');
  const { runs } = script;
  side.write('subject.txt', `${runs[30].target}\n`);
  side.write('held.txt', `${runs[60].target}\n`);
  // An eighth of the events is older.
  const policy = policyOf(Math.floor(((side.now - began) / HOUR / 24) * 0.875));
  side.write('policy.json', JSON.stringify(policy));
  side.write('bad-policy.json', JSON.stringify({ ...policy, default: { keep: 'for long' } }));

  const collector = await erased.serve('serve');
  await erased.run('hold', 'hold add CASE-1 --subject-file held.txt');
  await erased.run('hold on a run', `hold add CASE-2 --run ${runs[90].run}`);
  await erased.json('holds', 'hold list', VERDICT);
  await erased.run('a faulty policy', 'retention policy set --dry-run bad-policy.json', { where: '' });
  await erased.run('policy is checked', 'retention policy set --dry-run policy.json', { where: '' });
  await erased.run('policy', 'retention policy set policy.json');
  const { action } = JSON.parse((await erased.erase('a subject', '--subject-file subject.txt')) || '{}');
  await erased.erase('a run', `--run ${runs[200].run}`, 'sent-in-error');
  await erased.erase('an event', `--event ${script.single}`, 'test-data');
  await erased.erase('held', '--subject-file held.txt');
  await erased.erase('what is not there', `--run ${idOf('no such run')}`);
  await erased.erase('nested', `--run ${idOf('nested 2')}`);
  const late = event('outcome', 'after the erasure', undefined, { run_id: runs[30].run });
  await erased.post(collector.port, [{ kind: 'outcome', body: Buffer.from(JSON.stringify(late)) }], 1);
  await erased.erase('late', `--late ${action}`);
  await erased.json('certificate', `erase --certificate ${action}`, VERDICT);
  await erased.json('what is due', 'retention run --dry-run', VERDICT);
  await erased.json('retention', 'retention run', VERDICT);
  await erased.run('policy that holds', 'retention policy show', { how: 'json' });
  await erased.run('hold is over', 'hold release CASE-2');
  await erased.keepMetrics(collector.management);
  await collector.stop();

  await erased.json('actions', 'erase --list', VERDICT);
  await erased.read({ ...script.ids, erased: runs[30].run, single: runs[200].run });
  await erased.verify();
  await erased.prove({ ...script.proved, erased: { id: script.single } });
  await erased.copies(true);
}

const policyOf = (days) => ({
  ...{ version: 1, name: 'net', owner: 'net@hospital.example', age_from: 'last_event' },
  floors: [{ id: 'floor', match: { organisation: ['ward'] }, keep: 'P6M', basis: 'a law' }],
  rules: [
    { id: 'old', match: { kind: ['internal-artifact'] }, keep: `P${days}D`, unit: 'event', floor: 'none' },
  ],
  default: { keep: 'P10Y' },
});

/**
 * Damaged copies of a small log: encrypted, with erased runs and a hold. Each event is a batch of its own, because batches
 * decide where segments end.
 */
export async function damaged(side, script) {
  const situation = new Situation(side, 'damaged');
  await begin(situation, '--encryption on', tinySegments);
  const collector = await situation.serve('serve', '--encryption on', tinySegments);
  await situation.post(collector.port, script.demo.slice(0, 1600), 1);
  await situation.erase('a run', `--run ${script.runs[10].run}`, 'test-data');
  await situation.run('hold', `hold add CASE-1 --run ${script.runs[3].run}`);
  await collector.stop();
  await situation.run('events', 'events', BYTES);
  await (await situation.serve('serve again', '', tinySegments)).stop();
  await situation.verify();
  for (const [name, damage] of Object.entries(DAMAGES)) {
    const copy = `damaged-${name.replaceAll(' ', '-')}`;
    fs.cpSync(side.path('damaged'), side.path(copy), { recursive: true });
    fs.chmodSync(side.path(copy), 0o700);
    damage(side.path(copy));
    const where = `--data-dir ${copy}`;
    for (const check of ['verify', 'doctor'])
      await situation.json(`${name}, ${check}`, check, { ...FINDINGS, where });
    await situation.run(`${name}, events`, 'events', { ...BYTES, where });
    fs.rmSync(side.path(copy), { recursive: true });
  }
}

/** On PostgreSQL, and on a mirror of it. @param url of an empty database. @param keys of one for keys, to encrypt. */
export async function postgres(side, script, { url, keys, name = 'postgres', events }) {
  const situation = new Situation(side, name);
  const store = `--store ${url}`;
  situation.log = `${store} --data-dir ${name}`;
  await situation.run('migrate', 'store migrate --durability local', { where: store });
  await situation.makeKeys();
  side.write(`${name}-kek`, `${Buffer.alloc(32, 'kek').toString('base64')}\n`);
  fs.chmodSync(side.path(`${name}-kek`), 0o600);
  const kek = `--kek file:${side.path(`${name}-kek`)}`;
  const encryption =
    keys === undefined ? '--encryption off' : `--encryption on --encryption-keys ${keys} ${kek}`;
  const options = `${situation.log} --signing-keys ${name}-signing-keys ${encryption}`;
  const collector = await side.serve(`${name}: serve`, options, {}, '1s');
  await collector.signed(await situation.postAll(collector.port, script, events));
  await situation.keepMetrics(collector.management);
  await collector.stop();
  await situation.json('check', 'store check', { ...FINDINGS, where: store });
  const view = { where: `${store} --data-dir ${name}-view` };
  await situation.run('events of the database', 'events', { ...BYTES, ...view });
  await situation.json('verify the database', 'verify', { ...FINDINGS, ...view });
  situation.dir = `${name}-mirror`;
  const mirror = `--data-dir ${situation.dir}`;
  await situation.run('mirror', `mirror ${store} --once${keys === undefined ? '' : ` ${kek}`}`, {
    where: mirror,
  });
  situation.log = mirror;
  await situation.read(script.ids, keys === undefined ? FORMATS : ['ndjson']);
  await situation.verify();
  await situation.prove(script.proved);
}
