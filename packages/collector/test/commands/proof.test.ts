import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { formatNote, parseNote } from '@clinical-events/protocol/verify';
import { SigningKeys } from '../../src/tree/signing-keys.js';
import {
  createKey,
  outcomeEvent,
  run,
  start,
  storedEvents,
  temporaryDirectory,
} from '../running/collector-process.js';
import { post } from '../running/load.js';
import { idOf, type Made } from '../store/candidate.js';
import { fillDirectory, flipBit, frameOffset, segmentPaths } from '../store/embedded/filled-directory.js';
import { verifyIndependently } from './independent-verifier.js';
import { fillSigned, firstKey, loggedEvent, ORIGIN, proofIn } from './signed-directory.js';
import { AT, changed, tamper } from './tampering.js';

const SOME_ID = '6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10';
let dataDir: string;

beforeEach(() => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

function events(count: number, more: Parameters<typeof loggedEvent>[1] = {}): Made[] {
  return Array.from({ length: count }, (_, i) => loggedEvent(`Gr\u00fc\u00dfe \u{1f469} ${i}`, more));
}

function prove(event: Made | string, ...args: readonly string[]) {
  const id = typeof event === 'string' ? event : idOf(event);
  return run(['proof', id, '--data-dir', dataDir, ...args]);
}

function readings(): Record<string, unknown>[] {
  const lines = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8').trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Puts a witness's signature under the newest checkpoint, as the file of that witness. */
function cosign(witness: string, keyId: number, note = newest()): void {
  const { text, signatures } = parseNote(note);
  const cosigned = formatNote(text, [
    ...signatures,
    { name: witness, keyId, signature: Buffer.alloc(72, keyId) },
  ]);
  const name = `cosigned-${keyId.toString(16).padStart(8, '0')}`;
  fs.writeFileSync(path.join(dataDir, 'checkpoints', name), cosigned);
}

function newest(): string {
  return fs.readFileSync(path.join(dataDir, 'checkpoints', 'latest'), 'utf8');
}

/** Why there is no proof of the first event yet, as one line. */
function unsigned(id: string, reason: string): string {
  return expect.stringMatching(
    new RegExp(`^collector: event 1 \\(${id}\\) is not covered by a checkpoint yet, .*${reason}\n$`),
  ) as string;
}

describe('[R-908] the proof of an event', () => {
  test('is verified by independent code, for every event of logs of 1 to 40 events', async () => {
    const stored: Made[] = [];
    for (let size = 1; size <= 40; size++) {
      const more = events(1);
      stored.push(...more);
      await fillSigned(dataDir, [more]);
      for (const [index, event] of stored.entries()) {
        const { proof } = await proofIn(dataDir, idOf(event), 'default');
        expect(verifyIndependently(proof, event.body, firstKey(dataDir))).toEqual({ index, size });
      }
    }
  });

  test('is the only output of the command, which logs the reading', async () => {
    const batch = events(9);
    await fillSigned(dataDir, [batch]);
    const event = batch[6] as Made;
    const { code, stdout, stderr } = await prove(event);
    expect([code, stderr]).toEqual([0, '']);
    expect(verifyIndependently(stdout, event.body, firstKey(dataDir))).toEqual({ index: 6, size: 9 });
    expect(stdout).not.toContain('text');
    expect(readings()).toMatchObject([
      { state: 'begun', command: 'proof', filter: { event: idOf(event) } },
      { state: 'ended', command: 'proof', events: 1, complete: true },
    ]);
  });

  test('is not valid for another event, index, size or key', async () => {
    const [event, other] = events(2) as [Made, Made];
    await fillSigned(dataDir, [[event, other]]);
    const { stdout } = await prove(event);
    const key = firstKey(dataDir);
    expect(() => verifyIndependently(stdout, other.body, key)).toThrow('root');
    expect(() => verifyIndependently(stdout.replace('index 0', 'index 1'), event.body, key)).toThrow('root');
    expect(() => verifyIndependently(stdout.replace('\n2\n', '\n3\n'), event.body, key)).toThrow('signature');
    const another = temporaryDirectory();
    onTestFinished(() => fs.rmSync(another, { recursive: true }));
    await fillSigned(another, []);
    expect(() => verifyIndependently(stdout, event.body, firstKey(another))).toThrow('signature');
  });

  test('stays valid when more events come, and a new one covers all of them', async () => {
    const [event, ...rest] = events(300) as [Made, ...Made[]];
    await fillSigned(dataDir, [[event]]);
    const before = await prove(event);
    await fillSigned(dataDir, [rest]);
    // With the head of the access log, which has the first reading.
    const after = await prove(event);
    const key = firstKey(dataDir);
    expect(verifyIndependently(before.stdout, event.body, key)).toEqual({ index: 0, size: 1 });
    expect(verifyIndependently(after.stdout, event.body, key)).toEqual({ index: 0, size: 301 });
  });

  test('is of the body that "collector events" prints, byte for byte', async () => {
    const [event] = events(1) as [Made];
    await fillSigned(dataDir, [[event]]);
    const { stdout } = await prove(event);
    const [printed] = await storedEvents(dataDir, '--event', idOf(event));
    verifyIndependently(stdout, Buffer.from(printed?.body ?? ''), firstKey(dataDir));
  });

  test('comes as JSON for scripts', async () => {
    const batch = events(3);
    await fillSigned(dataDir, [batch]);
    const { code, stdout } = await prove(batch[1] as Made, '--json');
    const { proof, ...rest } = JSON.parse(stdout) as { proof: string };
    expect([code, rest]).toEqual([
      0,
      {
        ...{ event_id: idOf(batch[1] as Made), sequence: 2, index: 1, tree_size: 3, origin: ORIGIN },
        ...{ verifier_key: firstKey(dataDir), cosigned_by: [] },
      },
    ]);
    verifyIndependently(proof, (batch[1] as Made).body, firstKey(dataDir));
  });

  test('is written to a new file for its owner alone, and never replaces a file', async () => {
    const [event] = events(1) as [Made];
    await fillSigned(dataDir, [[event]]);
    const file = path.join(dataDir, 'event.tlog-proof');
    expect(await prove(event, '--out', file)).toEqual({ code: 0, stdout: '', stderr: '' });
    const proof = fs.readFileSync(file, 'utf8');
    verifyIndependently(proof, event.body, firstKey(dataDir));
    expect(fs.statSync(file).mode & 0o777).toBe(0o600);
    expect(fs.readdirSync(dataDir).filter((name) => name.startsWith('event.'))).toEqual(['event.tlog-proof']);
    const noted = readings().length;
    expect(await prove(event, '--out', file)).toEqual({
      ...{ code: 2, stdout: '' },
      stderr: expect.stringContaining(`collector: --out: ${file} exists`) as string,
    });
    expect(await prove(event, '--out', path.join(dataDir, 'no', 'file'))).toEqual({
      ...{ code: 2, stdout: '' },
      stderr: `collector: --out: there is no directory ${path.join(dataDir, 'no')}\n`,
    });
    expect(fs.readFileSync(file, 'utf8')).toBe(proof);
    expect(readings()).toHaveLength(noted);
  });
});

describe('[R-908] the checkpoint of a proof', () => {
  test('is the newest that a witness has cosigned, with every cosignature of it, else the newest', async () => {
    const batch = events(5);
    await fillSigned(dataDir, [batch.slice(0, 2)]);
    cosign('witness.example/old', 0x0b);
    await fillSigned(dataDir, [batch.slice(2, 4)]);
    cosign('witness.example/w2', 0xcafe);
    cosign('witness.example/w1', 0x0a);
    await fillSigned(dataDir, [batch.slice(4)]);
    const made = await Promise.all(batch.map((event) => proofIn(dataDir, idOf(event))));
    expect(made.map(({ checkpoint }) => checkpoint.checkpoint.size)).toEqual([4, 4, 4, 4, 5]);
    expect(made.map(({ cosignedBy }) => cosignedBy)).toEqual([
      ...Array<string[]>(4).fill(['witness.example/w1+0000000a', 'witness.example/w2+0000cafe']),
      [],
    ]);
    for (const { event, proof } of made) verifyIndependently(proof, event.body, firstKey(dataDir));
    expect(made[0]?.proof).toContain('\u2014 witness.example/w1 ');
  });

  test('is not one that the log has not signed, and a warning names that one', async () => {
    const [event] = events(1) as [Made];
    await fillSigned(dataDir, [[event]]);
    const own = parseNote(newest());
    const foreign = formatNote(own.text, [
      { name: 'witness.example', keyId: 7, signature: Buffer.alloc(72) },
    ]);
    fs.writeFileSync(path.join(dataDir, 'checkpoints', 'cosigned-00000007'), foreign);
    const { code, stdout, stderr } = await prove(event);
    expect([code, stderr]).toEqual([0, expect.stringContaining('warning: checkpoints/cosigned-00000007')]);
    verifyIndependently(stdout, event.body, firstKey(dataDir));
  });

  test('is signed by the newest key, and the proof says which that is', async () => {
    const [first, second] = events(2) as [Made, Made];
    await fillSigned(dataDir, [[first]]);
    const directory = path.join(dataDir, 'signing-keys');
    const { key } = SigningKeys.rotate({ dataDir, directory, overlapMs: 0 });
    await fillSigned(dataDir, [[second]]);
    const { proof, verifierKey } = await proofIn(dataDir, idOf(first));
    expect(verifierKey).toBe(key.vkey);
    verifyIndependently(proof, first.body, key.vkey);
  });

  test('is waited for beside a running collector, which signs one within a second or so', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, ['--checkpoint-interval-ms', '1500']);
    onTestFinished(() => collector.kill());
    const event = outcomeEvent();
    const body = JSON.stringify(event);
    expect((await post(collector.port, key, body)).status).toBe(201);
    let proved = await prove(event.event_id);
    // A busy machine takes longer than the command waits.
    while (proved.code !== 0) {
      expect(proved.stderr).toMatch(/not covered by a checkpoint yet.*\b5 s\b/);
      proved = await prove(event.event_id);
    }
    expect(proved.stderr).toBe('');
    // The head of the access log, which has a line of this by now, may be under the checkpoint as well.
    const under = verifyIndependently(proved.stdout, Buffer.from(body), firstKey(dataDir));
    expect(under).toMatchObject({ index: 0 });
  });

  test('is waited for at most five seconds, and not at all if no collector is running', async () => {
    const key = await createKey(dataDir);
    const collector = await start(dataDir, ['--checkpoint-interval-ms', '60m']);
    onTestFinished(() => collector.kill());
    const { event_id: id, ...event } = outcomeEvent();
    await post(collector.port, key, JSON.stringify({ event_id: id, ...event }));
    const begun = performance.now();
    expect(await prove(id)).toEqual({
      ...{ code: 1, stdout: '' },
      stderr: unsigned(id, '5 s: try again, .*log'),
    });
    expect(performance.now() - begun).toBeGreaterThan(4900);
    await collector.kill();
    expect(await prove(id)).toEqual({
      ...{ code: 1, stdout: '' },
      stderr: unsigned(id, 'no collector is running: .*'),
    });
    await fillSigned(dataDir, []);
    expect((await prove(id)).code).toBe(0);
  });
});

describe('the event of a proof', () => {
  test('needs --organisation when several organisations have one with the id', async () => {
    const eventId = randomUUID();
    const ward = loggedEvent('ward', { eventId, organisation: 'ward' });
    const other = loggedEvent('default', { eventId });
    await fillSigned(dataDir, [[ward, other]]);
    for (const known of [false, true]) {
      if (known) {
        await createKey(dataDir);
        await createKey(dataDir, '--organisation', 'ward');
      }
      expect(await prove(eventId.toUpperCase())).toEqual({
        ...{ code: 2, stdout: '' },
        stderr: expect.stringMatching(
          new RegExp(`^collector: several organisations .*${eventId}: .*--organisation.*default, ward`),
        ) as string,
      });
    }
    const { stdout } = await prove(eventId, '--organisation', 'ward');
    expect(verifyIndependently(stdout, ward.body, firstKey(dataDir)).index).toBe(0);
    const { stdout: second } = await prove(eventId, '--organisation', 'default');
    expect(verifyIndependently(second, other.body, firstKey(dataDir)).index).toBe(1);
  });

  test.each([
    [[], '\n'],
    [['--organisation', 'ward'], ' .*other options\n'],
  ])('that does not exist ends the command with exit code 6 (%j)', async (args, narrowed) => {
    await fillSigned(dataDir, [events(2)]);
    const id = randomUUID();
    expect(await prove(id, ...args)).toEqual({
      ...{ code: 6, stdout: '' },
      stderr: expect.stringMatching(
        new RegExp(`^collector: there is no event ${id} in ${dataDir}${narrowed}$`),
      ) as string,
    });
  });

  test.each([
    [['abc'], 'event id: "abc" is not a UUID'],
    [[SOME_ID, '--organisation', 'a b'], '--organisation: "a b" is not 1 to 64 characters of'],
    [[], 'event id: give one, or --tiles DIR'],
    [[SOME_ID, SOME_ID], "too many arguments for 'proof'"],
  ])('with %j is refused with exit code 2, and nothing is logged', async (args, message) => {
    await fillSigned(dataDir, [events(1)]);
    const { code, stdout, stderr } = await run(['proof', ...args, '--data-dir', dataDir]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(`collector: ${message}`);
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
  });
});

describe('[R-908] a damaged log yields no proof', () => {
  const batch = events(300);
  const event = batch[4] as Made;

  beforeEach(async () => {
    await fillSigned(dataDir, [batch]);
  });

  /** What is done to the log, and which words say what is wrong. */
  const damages: Readonly<Record<string, [act: () => unknown, says: RegExp]>> = {
    'a hash of the tree has changed': [
      () => flipBit(path.join(dataDir, 'tree', 'level-0'), 5 * 32),
      /do not lead from event 5 to the signed root; see collector verify --data-dir/,
    ],
    'the event is another one, with a checksum that fits': [
      () =>
        tamper(dataDir, (frames) => frames.with(4, changed(frames[4] ?? Buffer.alloc(0), AT.envelope + 12))),
      /: event 5 .*is not the one that was signed/,
    ],
    'a part of the tree is missing': [
      () => fs.truncateSync(path.join(dataDir, 'tree', 'level-0'), 32 * 100),
      /the tree lacks some of the \d+ hashes/,
    ],
    // No later event says that it was durable: only the checkpoint does.
    'a byte of the event has changed': [flipEvent, /up to entry 4 only, .*checkpoint covers 300 entries/],
    'a byte of the event has changed, and a later event shows that it was durable': [
      async () => {
        await fillSigned(dataDir, [events(1)]);
        flipEvent();
      },
      /, event 5: the frame is damaged/,
    ],
    'the newest checkpoint is not signed by a key of the log': [
      async () => {
        const other = temporaryDirectory();
        onTestFinished(() => fs.rmSync(other, { recursive: true }));
        await fillSigned(other, [batch]);
        const latest = ['checkpoints', 'latest'];
        fs.copyFileSync(path.join(other, ...latest), path.join(dataDir, ...latest));
      },
      /checkpoints\/latest is not a checkpoint of this log/,
    ],
    'the key that the log began with is missing': [
      () => fs.rmSync(path.join(dataDir, 'checkpoints', 'origin.vkey')),
      /checkpoints\/origin\.vkey is missing/,
    ],
  };

  function flipEvent(): void {
    const [segment = ''] = segmentPaths(dataDir);
    flipBit(segment, frameOffset(segment, batch, 5) + 200);
  }

  test.each(Object.entries(damages))('when %s', async (_, [act, says]) => {
    await act();
    expect(await prove(event)).toEqual({
      code: 3,
      stdout: '',
      stderr: expect.stringMatching(says) as string,
    });
  });

  test('except of the events before the damage', async () => {
    flipEvent();
    expect((await prove(batch[3] as Made)).code).toBe(0);
  });
});

describe('a directory', () => {
  test('in which nothing was signed yet has no proof, and is not damaged', async () => {
    const [event] = events(1) as [Made];
    await fillDirectory(dataDir, [[event]]);
    const { code, stderr } = await prove(event);
    expect([code, stderr]).toEqual([1, unsigned(idOf(event), 'no collector is running: .*')]);
  });
});
