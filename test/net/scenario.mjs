// What each side does, from an empty directory to the last answer. Both sides take the same steps with the same names.
import fs from 'node:fs';
import { demoRequests, event, idOf, oddRequests, storedOf } from './events.mjs';
import { DAMAGES } from './damages.mjs';
import { promised, send } from './sending.mjs';
import { listing } from './side.mjs';
import { smallSegments, tinySegments } from './sides.mjs';

const HOUR = 3_600_000;
/** Events between two readings of the clock, and how many wait for an answer at most. */
const GROUP = 400;
const WINDOW = 48;
const KEYS = {
  demo: ['--organisation', 'demo', '--permissions', 'all'],
  ward: ['--organisation', 'ward', '--permissions', 'all', '--note', 'a ward'],
  full: ['--organisation', 'demo', '--permissions', 'all', '--profile', 'full'],
  outcomes: ['--organisation', 'demo', '--permissions', 'outcome', '--expires', '90d'],
  revoked: ['--organisation', 'ward', '--permissions', 'all'],
  rotated: ['--organisation', 'ward', '--permissions', 'all', '--rate-limit', '1000/s'],
};
/** The formats of records. */
const FORMATS = ['ndjson', 'json', 'csv', 'parquet', 'fhir', 'otlp', 'prov'];

/** A situation: a log, and the names of its answers. */
class Situation {
  constructor(side, name, dir = name.split(' ')[0]) {
    Object.assign(this, { side, name, dir, log: ['--data-dir', dir], keys: {}, stored: 0 });
  }

  run(what, purpose, args, options) {
    return this.side.run(`${this.name}: ${what}`, purpose, args, options);
  }

  json(what, purpose, args, options) {
    return this.run(what, purpose, [...args, '--json'], { how: 'json', ...options });
  }

  async serve(what, more = [], size = smallSegments) {
    const { options, environment } = size[this.side.name];
    return this.side.serve(`${this.name}: ${what}`, [...this.log, ...options, ...more], environment);
  }

  async makeKeys() {
    for (const [name, args] of Object.entries(KEYS)) {
      const made = await this.json(`key ${name}`, 'createKey', [...args, ...this.log]);
      this.keys[name] = JSON.parse(made);
    }
    const idOfKey = (name) => this.keys[name].key_id ?? this.keys[name].key.slice(4, 16);
    await this.json('key is revoked', 'revokeKey', [idOfKey('revoked'), ...this.log]);
    await this.json('key is rotated', 'rotateKey', [idOfKey('rotated'), '--overlap', '0', ...this.log]);
    await this.run('no such key', 'revokeKey', ['aaaaaaaaaaaa', ...this.log]);
    await this.json('keys', 'listKeys', this.log);
  }

  keyOf = (name) => this.keys[name ?? 'demo']?.key ?? name;

  /** Groups of requests, between which the clock goes on. @returns the answers. */
  async post(port, requests, window = WINDOW) {
    const answers = [];
    for (let at = 0; at < requests.length; at += GROUP) {
      answers.push(...(await send(port, requests.slice(at, at + GROUP), this.keyOf, window)));
      this.side.advance(6 * HOUR);
    }
    this.stored += requests.length;
    return answers;
  }

  keepAnswers(what, answers) {
    this.side.keep(`${this.name}: ${what}`, {
      text: answers.map((one) => `${JSON.stringify(promised(one))}\n`).join(''),
    });
  }

  async keepMetrics(management) {
    const text = await (await fetch(`http://127.0.0.1:${management}/metrics`)).text();
    const names = text.split('\n').flatMap((line) => {
      if (line.startsWith('# TYPE')) return [line];
      const [, name, labels = ''] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? [];
      return name === undefined ? [] : [`${name} ${labels.replaceAll(/="(?:[^"\\]|\\.)*"/g, '')}`];
    });
    this.side.keep(`${this.name}: metric names`, { text: [...new Set(names)].sort().join('\n') });
  }

  /** Every way in which events, runs and records are read. @param all also those that take other paths by an option. */
  async read({ all, log = this.log, ids, formats = FORMATS }) {
    const bytes = { how: 'bytes' };
    await this.run('events', 'events', log, bytes);
    await this.json('runs', 'runs', ['--limit', 'all', ...log]);
    for (const format of formats)
      await this.run(`records ${format}`, 'records', ['--format', format, ...log], bytes);
    await this.json('report', 'report', ['--out', `${this.dir}-${this.name.split(' ').at(-1)}.html`, ...log]);
    for (const [name, id] of Object.entries(ids)) {
      await this.run(`run ${name}`, 'records', ['--run', id, '--format', 'text', '--full', ...log], bytes);
      await this.run(`events of ${name}`, 'events', ['--run', id, ...log], bytes);
    }
    if (!all) return;
    const [since, until] = [this.side.now - 10 * 24 * HOUR, this.side.now - 2 * 24 * HOUR].map((at) =>
      new Date(at).toISOString(),
    );
    const FILTERS = {
      period: ['--since', since, '--until', until],
      'sender period': ['--since', '2025-12-10', '--until', '2026-01-02', '--clock', 'sender'],
      model: ['--model', 'sepsis-abstractor@3.0'],
      organisation: ['--organisation', 'ward'],
      incomplete: ['--incomplete'],
    };
    const ONLY_RUNS = {
      target: ['--target', 'patient-0406'],
      user: ['--user', 'clinician-1'],
      app: ['--app', 'net'],
      conflict: ['--conflict'],
      failed: ['--failed'],
      'no outcome': ['--outcome', 'none'],
      contradicted: ['--outcome', 'contradicted'],
      'thumbs up': ['--feedback', 'thumbs-up'],
      'thumbs down': ['--feedback', 'thumbs-down'],
      'no outcome for long': ['--no-outcome-for', '10d'],
    };
    for (const [name, args] of Object.entries({ ...FILTERS, ...ONLY_RUNS }))
      await this.json(`runs ${name}`, 'runs', [...args, '--limit', 'all', ...log]);
    await this.run('runs as CSV', 'runs', ['--limit', 'all', '--csv', ...log], bytes);
    await this.run('runs as a table', 'runs', ['--conflict', ...log]);
    for (const [name, args] of Object.entries(FILTERS))
      await this.run(`records ${name}`, 'records', [...args, ...log], bytes);
    await this.run('records after', 'records', ['--after', String(this.stored - 1000), ...log], bytes);
    await this.run('records by day', 'records', [
      '--format',
      'parquet',
      '--partition',
      'day',
      '--out',
      `${this.dir}-days`,
      ...log,
    ]);
    this.side.keep(`${this.name}: records by day`, { text: listing(this.side.path(`${this.dir}-days`)) });
    await this.run(
      'events period',
      'events',
      ['--since', since, '--until', until, '--kind', 'outcome', ...log],
      bytes,
    );
    await this.run('no such event', 'events', ['--event', idOf('no such event'), ...log]);
    await this.run('no such run', 'records', ['--run', idOf('no such run'), ...log]);
    const period = ['--since', '2025-12-10', '--until', '2026-01-20', '--clock', 'sender'];
    await this.json('report by the senders', 'report', [
      '--out',
      `${this.dir}-senders.html`,
      ...period,
      ...log,
    ]);
  }

  /** Proofs of events, and what holds for a changed one. @param events by name: id and body, undefined of one erased. */
  async prove(events, log = this.log) {
    const keys = JSON.parse(await this.json('signing keys', 'showSigningKeys', log));
    this.side.write(`${this.name}.vkey`, `${keys.key ?? keys.keys.at(-1).key}\n`);
    const key = ['--key', `${this.name}.vkey`];
    for (const [name, { id, body }] of Object.entries(events)) {
      const file = `${this.name} ${name}.proof`;
      await this.run(`proof of ${name}`, 'proof', [id, '--organisation', 'demo', '--out', file, ...log]);
      if (fs.existsSync(this.side.path(file)))
        this.side.keep(`${this.name}: proof of ${name}, bytes`, { file }, 'format');
      if (body === undefined) {
        await this.json(`check of ${name}`, 'checkProof', [file, ...key], { how: 'verdict' });
        continue;
      }
      this.side.write('body.json', body);
      await this.json(`check of ${name}`, 'checkProof', [file, '--event', 'body.json', ...key], {
        how: 'verdict',
      });
      await this.run(`check of ${name}, changed`, 'checkProof', [file, '--event', '-', ...key], {
        input: `${body} `,
      });
    }
    await this.run('proof of nothing', 'proof', [idOf('no such event'), ...log]);
    if (log.includes('--store')) return;
    this.side.keep(`${this.name}: checkpoint, bytes`, { file: `${this.dir}/checkpoints/latest` }, 'format');
  }

  async tiles() {
    await this.json('tiles', 'exportTiles', [`${this.name} tiles`, ...this.log], { how: 'verdict' });
    const tiles = this.side.path(`${this.name} tiles`);
    if (fs.existsSync(tiles))
      this.side.keep(`${this.name}: tiles, bytes`, { text: listing(tiles) }, 'format');
  }

  async verify(log = this.log) {
    await this.json('verify', 'verify', log, { how: 'findings' });
    await this.json('doctor', 'doctor', log, { how: 'findings' });
  }

  async copies() {
    const elsewhere = this.name === 'plain' ? [] : ['--keys-elsewhere'];
    await this.json('backup', 'backup', [`${this.dir}-backup`, ...elsewhere, ...this.log], {
      how: 'verdict',
    });
    await this.json('backup, verified', 'verify', ['--data-dir', `${this.dir}-backup`], { how: 'findings' });
    const keys = this.name === 'plain' ? [] : ['--encryption-keys', `${this.dir}-copied-keys`];
    if (keys.length > 0)
      await this.json(
        'keys copied',
        'copyEncryptionKeys',
        [`${this.dir}-copied-keys`, '--lives', '14d', ...this.log].filter((arg) => arg !== '--json'),
      );
    const restored = ['--data-dir', `${this.dir}-restored`];
    await this.json('restore', 'restore', [`${this.dir}-backup`, ...restored, ...keys], { how: 'verdict' });
    await this.run('restore again', 'restore', [`${this.dir}-backup`, ...restored, ...keys]);
    await this.run('restored events', 'events', restored, { how: 'bytes' });
    await this.json('restored, verified', 'verify', restored, { how: 'findings' });
  }
}

/** What is known of the events, for both sides: requests, and those that proofs and readings are asked for. */
export class Script {
  constructor(lines) {
    this.demo = demoRequests(lines);
    this.odd = oddRequests(this.demo);
    const starts = this.demo
      .filter(({ kind }) => kind === 'inference-start')
      .map(({ body }) => JSON.parse(body));
    const runs = starts.map(({ event_id: id, run_id: run = id, target_identity: target }) => ({
      run,
      target: target.target_id,
    }));
    this.runs = runs;
    /** Is erased by itself. */
    this.single = this.demo[(this.demo.length * 0.7) | 0];
    this.ids = {
      first: runs[0].run,
      nested: idOf('nested 1'),
      thumb: idOf('thumb 3'),
      upper: idOf('upper run'),
    };
    const proved = [0, this.demo.length >> 1, this.demo.length - 1].map((at) =>
      this.demo[at].body.toString(),
    );
    this.proved = Object.fromEntries(
      proved
        .map((body) => [JSON.parse(body).event_id, body])
        .map(([id, body], at) => [`event ${at}`, { id, body }]),
    );
  }
}

/** An ordinary life: events come, are read, proved, backed up and damaged. */
async function live(situation, script, { options, all, import: imports }) {
  const { side } = situation;
  await situation.makeKeys();
  const collector = await situation.serve('serve', options);
  situation.keepAnswers('answers', await situation.post(collector.port, script.demo));
  for (const [name, requests] of Object.entries(script.odd))
    situation.keepAnswers(`answers to ${name}`, await situation.post(collector.port, requests, 1));
  if (imports) {
    const lines = [
      ...script.demo.slice(0, 500),
      ...script.odd.conflicts,
      ...script.odd['odd JSON'].slice(0, 5),
    ];
    const file = lines.map(({ kind, body }) => JSON.stringify({ kind, body: body.toString() }));
    side.write('import.ndjson', [...file, 'no JSON', ''].join('\n'));
    // By itself, because lines are under way together, and each draws from the random source.
    const imported = JSON.stringify({ kind: 'outcome', event: event('outcome', 'imported', 'imported') });
    const key = { environment: { COLLECTOR_KEY: situation.keyOf('demo') } };
    const where = [
      '--organisation',
      'demo',
      '--url',
      `http://127.0.0.1:${collector.port}`,
      '--rejects',
      'rejects.ndjson',
    ];
    await situation.json('import', 'import', ['import.ndjson', ...where], key);
    await situation.json('import of one', 'import', ['-', ...where.with(-1, 'none.ndjson')], {
      ...key,
      input: imported,
    });
    side.keep(`${situation.name}: rejected lines`, { file: 'rejects.ndjson' }, 'sorted');
    await situation.json('check of the file', 'checkEvents', ['import.ndjson', '--rejects', 'faults.ndjson']);
    await situation.json('configuration', 'checkConfiguration', situation.log, { how: 'verdict' });
  }
  await situation.keepMetrics(collector.management);
  await collector.stop();
  await situation.read({ all, ids: script.ids, ...(!all && { formats: ['ndjson'] }) });
  // The log gets a head of the access log.
  await (await situation.serve('serve again')).stop();
  await situation.verify();
  await situation.prove(script.proved);
}

export async function plain(side, script) {
  const situation = new Situation(side, 'plain');
  await live(situation, script, { options: ['--encryption', 'off'], all: true, import: true });
  // Their directories stand in the access log, so no later entry of the log may be about that.
  await situation.tiles();
  await situation.copies();
}

/** Encrypted, and then erased: runs, a hold, a policy, what comes late. */
export async function encryptedAndErased(side, script) {
  const encrypted = new Situation(side, 'encrypted');
  const began = side.now;
  await live(encrypted, script, { options: ['--encryption', 'on'], all: false, import: false });
  await encrypted.json('keys of payloads', 'encryptionKeysStatus', encrypted.log, { how: 'verdict' });

  const erased = Object.assign(new Situation(side, 'erased', encrypted.dir), { keys: encrypted.keys });
  fs.mkdirSync(side.path('mirrored-keys'));
  await erased.run('keys mirrored', 'mirrorEncryptionKeys', ['mirrored-keys', ...erased.log]);
  const collector = await erased.serve('serve');
  const { runs } = script;
  const [subject, held] = [runs[30].target, runs[60].target];
  side.write('subject.txt', `${subject}\n`);
  side.write('held.txt', `${held}\n`);
  // An eighth of the events is older.
  const days = Math.floor(((side.now - began) / HOUR / 24) * 0.875);
  side.write(
    'policy.json',
    JSON.stringify({
      ...{ version: 1, name: 'net', owner: 'net@hospital.example', age_from: 'last_event' },
      floors: [{ id: 'floor', match: { organisation: ['ward'] }, keep: 'P6M', basis: 'a law' }],
      rules: [
        {
          id: 'old',
          match: { organisation: ['demo'], kind: ['internal-artifact'] },
          keep: `P${days}D`,
          unit: 'event',
        },
      ],
      default: { keep: 'P10Y' },
    }),
  );
  side.write('bad-policy.json', JSON.stringify({ version: 1, name: 'net', default: { keep: 'for long' } }));
  await erased.run('hold', 'addHold', ['--name', 'CASE-1', '--subject-file', 'held.txt', ...erased.log]);
  await erased.run('hold on a run', 'addHold', ['--name', 'CASE-2', '--run', runs[90].run, ...erased.log]);
  await erased.json('holds', 'listHolds', erased.log, { how: 'verdict' });
  await erased.run('a faulty policy', 'checkPolicy', ['bad-policy.json']);
  await erased.run('policy is checked', 'checkPolicy', ['policy.json']);
  await erased.run('policy', 'setPolicy', ['policy.json', ...erased.log]);
  const erase = (what, args) => erased.json(what, 'erase', [...args, ...erased.log], { how: 'verdict' });
  const why = ['--reason', 'erasure-request'];
  const count = async (what, args) => {
    const plan = JSON.parse((await erase(`${what}, planned`, [...args, '--dry-run'])) || '{}');
    return String(plan.events ?? plan.to_erase ?? 0);
  };
  const erasure = async (what, args) => erase(what, [...args, '--confirm', await count(what, args)]);
  const done = await erasure('a subject', ['--subject-file', 'subject.txt', ...why]);
  await erasure('a run', ['--run', runs[200].run, '--reason', 'sent-in-error']);
  await erasure('an event', ['--event', JSON.parse(script.single.body).event_id, '--reason', 'test-data']);
  await erasure('held', ['--subject-file', 'held.txt', ...why]);
  await erasure('what is not there', ['--run', idOf('no such run'), ...why]);
  await erasure('nested', ['--run', idOf('nested 2'), ...why]);
  const late = event('outcome', 'after the erasure', undefined, { run_id: runs[30].run });
  erased.keepAnswers(
    'late',
    await erased.post(collector.port, [{ kind: 'outcome', body: Buffer.from(JSON.stringify(late)) }], 1),
  );
  const { action } = JSON.parse(done || '{}');
  if (action !== undefined) {
    await erasure('again', ['--again', action, ...why]);
    await erased.json('certificate', 'certificate', [action, ...erased.log], { how: 'verdict' });
  }
  await erased.json('what is due', 'retire', ['--dry-run', ...erased.log], { how: 'verdict' });
  await erased.json('retention', 'retire', erased.log, { how: 'verdict' });
  await erased.run('policy that holds', 'showPolicy', erased.log, { how: 'json' });
  await erased.run('hold is over', 'releaseHold', ['CASE-2', ...erased.log]);
  await erased.keepMetrics(collector.management);
  await collector.stop();
  await erased.json('actions', 'listActions', erased.log, { how: 'verdict' });
  await erased.run('actions as files', 'exportActions', ['actions', ...erased.log]);
  await erased.read({ all: false, ids: { ...script.ids, erased: runs[30].run, single: runs[200].run } });
  await erased.verify();
  await erased.prove({ ...script.proved, erased: { id: JSON.parse(script.single.body).event_id } });
  await erased.tiles();
  await erased.copies();
}

/**
 * Damaged copies of a small log: encrypted, with erased runs and a hold. Each event is a batch of its own, because batches
 * decide where segments end.
 */
export async function damaged(side, script) {
  const situation = new Situation(side, 'damaged');
  await situation.makeKeys();
  const collector = await situation.serve('serve', ['--encryption', 'on'], tinySegments);
  await situation.post(collector.port, script.demo.slice(0, 1600), 1);
  side.write('damaged-subject.txt', `${script.runs[10].target}\n`);
  const subject = ['--subject-file', 'damaged-subject.txt', ...situation.log];
  const plan = await situation.json('planned', 'erase', [...subject, '--reason', 'test-data', '--dry-run'], {
    how: 'verdict',
  });
  const confirm = ['--confirm', String(JSON.parse(plan || '{}').events)];
  await situation.json('erased', 'erase', [...subject, '--reason', 'test-data', ...confirm], {
    how: 'verdict',
  });
  await situation.run('hold', 'addHold', ['--name', 'CASE-1', '--run', script.runs[3].run, ...situation.log]);
  await collector.stop();
  await situation.run('events', 'events', situation.log, { how: 'bytes' });
  await (await situation.serve('serve again')).stop();
  await situation.verify();
  for (const [name, damage] of Object.entries(DAMAGES)) {
    const copy = `damaged-${name.replaceAll(' ', '-')}`;
    fs.cpSync(side.path('damaged'), side.path(copy), { recursive: true });
    fs.chmodSync(side.path(copy), 0o700);
    damage(side.path(copy));
    for (const check of ['verify', 'doctor'])
      await situation.json(`${name}, ${check}`, check, ['--data-dir', copy], { how: 'findings' });
    await situation.run(`${name}, events`, 'events', ['--data-dir', copy], { how: 'bytes' });
    fs.rmSync(side.path(copy), { recursive: true });
  }
}

/** On PostgreSQL, and on a mirror of it. @param url of an empty database, and of one for keys. */
export async function postgres(side, script, { url, keys, what = 'postgres', events = Infinity }) {
  const situation = new Situation(side, what);
  const data = ['--data-dir', what, '--signing-keys', `${what}-signing-keys`];
  const shared = ['--store', url, '--data-dir', `${what}-view`];
  situation.log = ['--store', url, '--data-dir', what];
  await situation.run('migrate', 'migrateStore', ['--store', url, '--durability', 'local']);
  if (keys !== undefined)
    await situation.run('migrate keys', 'migrateStore', ['--store', keys, '--durability', 'local']);
  await situation.makeKeys();
  const encryption =
    keys === undefined
      ? ['--encryption', 'off']
      : ['--encryption', 'on', '--encryption-keys', keys, '--kek', `file:${side.path('kek')}`];
  const { environment } = smallSegments[side.name];
  const serve = ['--store', url, ...data, ...encryption];
  const collector = await side.serve(`${what}: serve`, serve, environment, '1s');
  const requests = [...script.demo.slice(0, events), ...Object.values(script.odd).flat()];
  const answers = await situation.post(collector.port, script.demo.slice(0, events));
  for (const group of Object.values(script.odd))
    answers.push(...(await situation.post(collector.port, group, 1)));
  situation.keepAnswers('answers', answers);
  const organisationOf = (key = 'demo') => KEYS[key][1];
  await collector.signed(storedOf(requests, answers, organisationOf));
  await situation.keepMetrics(collector.management);
  await collector.stop();
  await situation.json('check', 'checkStore', ['--store', url], { how: 'findings' });
  await situation.run('events of the database', 'events', shared, { how: 'bytes' });
  await situation.json('verify the database', 'verify', shared, { how: 'findings' });
  const kek = keys === undefined ? [] : ['--encryption-keys', keys, '--kek', `file:${side.path('kek')}`];
  situation.dir = `${what}-mirror`;
  const mirror = ['--data-dir', situation.dir];
  await situation.run('mirror', 'mirror', ['--store', url, '--once', ...mirror, ...kek.slice(2)]);
  situation.log = mirror;
  await situation.read({ all: false, ids: script.ids });
  await situation.verify();
  await situation.prove(script.proved);
  await situation.tiles();
}
