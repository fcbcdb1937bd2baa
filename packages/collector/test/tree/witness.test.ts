import fs from 'node:fs';
import path from 'node:path';
import { keyIdText, parseNote } from '@clinical-events/protocol/verify';
import { describe, expect, onTestFinished, test } from 'vitest';
import { verifyCosignature, verifyNote } from '../../src/tree/note-signing.js';
import { SinkForked, SinkTrouble } from '../../src/tree/sink.js';
import { Witness } from '../../src/tree/witness.js';
import { leaves } from '../tree/rfc-tree.js';
import { FakeWitness, type Instead } from './fake-witness.js';
import { attempt, newKey, ORIGIN, rejection, SampleLog, scratchDirectory } from './sample-log.js';

const log = new SampleLog();

interface Meeting {
  readonly witness: FakeWitness;
  readonly directory: string;
  readonly file: string;
  /** A witness sink as a new start has it. */
  readonly sink: (of?: SampleLog) => Witness;
}

async function meet(): Promise<Meeting> {
  const witness = await new FakeWitness().trust(log.signer.key.vkey).listen();
  const directory = scratchDirectory();
  const { prefix, key } = witness;
  return {
    witness,
    directory,
    file: path.join(directory, `cosigned-${keyIdText(key.keyId)}`),
    sink: (of = log) => new Witness({ prefix, shown: prefix, key, directory, log: of, fetch }),
  };
}

async function give(sink: Witness, size: number, of = log): Promise<void> {
  of.signed = size;
  await sink.deliver(of.published(size), attempt());
}

function answering(status: number, body = '', headers: Record<string, string> = {}): Instead {
  return (response) => {
    response.writeHead(status, headers).end(body);
    return true;
  };
}

describe('a witness', () => {
  test('[R-906] gets a proof that each checkpoint extends the last one it saw, and its cosignature is kept', async () => {
    const { witness, directory, file, sink } = await meet();
    const sizes = [0, 1, 2, 3, 7, 8, 100, 256, 257, 300];
    const one = sink();
    for (const size of sizes) {
      await give(one, size);
      const note = fs.readFileSync(file, 'utf8');
      expect(verifyNote(note, [log.signer.key]).text).toBe(parseNote(log.note(size)).text);
      expect(verifyCosignature(note, witness.key).time).toBe(1_700_000_000);
    }
    expect(witness.asked).toEqual([0, ...sizes.slice(0, -1)]);
    expect(witness.seen.get(ORIGIN)?.size).toBe(300);
    expect(fs.readdirSync(directory)).toEqual([path.basename(file)]);
    expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  });

  test('is not asked again about a checkpoint that it has cosigned, also after a restart', async () => {
    const { witness, sink } = await meet();
    await give(sink(), 100);
    await give(sink(), 100);
    expect(witness.asked).toEqual([0]);
    await give(sink(), 101);
    expect(witness.asked).toEqual([0, 100]);
  });

  test('is asked for the size that it has seen when the kept cosignature is missing or damaged', async () => {
    const { witness, file, sink } = await meet();
    await give(sink(), 100);
    const kept = fs.readFileSync(file, 'utf8');
    const strange = new SampleLog(newKey()).note(50);
    for (const damaged of [
      ...['', 'rubbish', kept.replace('\n100\n', '\n10\n'), log.note(50), strange],
      strange + witness.cosignature(parseNote(strange).text),
    ]) {
      fs.writeFileSync(file, damaged);
      witness.asked.length = 0;
      await give(sink(), 100);
      expect(witness.asked).toEqual([0, 100]);
      expect(fs.readFileSync(file, 'utf8')).toBe(kept);
    }
  });

  test('reports a fork when it has seen more than the ledger has', async () => {
    const { witness, file, sink } = await meet();
    await give(sink(), 200);
    fs.rmSync(file);
    const error = await rejection(give(sink(), 150));
    expect(error).toBeInstanceOf(SinkForked);
    expect(error.message).toBe(
      'the witness has seen this log with 200 entries, and this ledger has 150: ' +
        'it was restored from an older back-up, or entries were cut off its end',
    );
    log.held = 163;
    onTestFinished(() => void (log.held = 0));
    expect((await rejection(give(sink(), 150))).message).toContain('entries, and this ledger has 163: ');
    expect(witness.asked).toEqual([0, 0, 0]);
    expect(fs.existsSync(file)).toBe(false);
  });

  test('[R-906] gets the newest stored checkpoint when another collector of the log has submitted a newer one', async () => {
    const { witness, file, sink } = await meet();
    await give(sink(), 200);
    fs.rmSync(file);
    const behind = sink();
    log.signed = 250;
    await behind.deliver(log.published(150), attempt());
    expect(witness.seen.get(ORIGIN)?.size).toBe(250);
    expect(parseNote(fs.readFileSync(file, 'utf8')).text).toBe(parseNote(log.note(250)).text);
    // A checkpoint cosigned meanwhile covers it.
    await behind.deliver(log.published(160), attempt());
    expect(witness.asked).toEqual([0, 0, 200]);
  });

  test('reports a fork when the ledger has less than the kept cosigned checkpoint, or other events', async () => {
    const { witness, file, sink } = await meet();
    await give(sink(), 200);
    expect((await rejection(give(sink(), 150))).message).toBe(
      `${file}, which this witness cosigned, is a checkpoint of 200 entries, and this ledger has 150: ` +
        'it was restored from an older back-up, or entries were cut off its end',
    );
    const forked = log.forkedAt(100);
    expect(await rejection(give(sink(forked), 250, forked))).toBeInstanceOf(SinkForked);
    expect(await rejection(give(sink(forked), 200, forked))).toBeInstanceOf(SinkForked);
    expect(witness.asked).toEqual([0]);
  });

  test('reports a fork when the ledger has other events than it saw', async () => {
    const { file, sink } = await meet();
    await give(sink(), 200);
    fs.rmSync(file);
    const forked = log.forkedAt(100);
    for (const size of [200, 250]) {
      const error = await rejection(give(sink(forked), size, forked));
      expect(error).toBeInstanceOf(SinkForked);
      expect(error.message).toContain(
        'the witness has seen this log with 200 entries that are not the first 200',
      );
    }
    await give(sink(), 250);
  });

  test('that does not know the log or its key says so', async () => {
    const { witness, sink } = await meet();
    const another = new SampleLog(newKey());
    expect((await rejection(give(sink(another), 10, another))).message).toBe(
      'does not know the signing key (403): give it the key that collector signing-key show prints',
    );
    witness.trusted.clear();
    expect((await rejection(give(sink(), 10))).message).toBe(
      `does not know this log (404): have its operator add the origin ${ORIGIN}, or correct the address`,
    );
  });

  test.each([400, 422, 429, 500, 503, 204, 301, 307])(
    'that answers with %i fails, and its answer is not repeated',
    async (status) => {
      const { witness, directory, sink } = await meet();
      let asked = 0;
      witness.instead = (response) => {
        asked++;
        return answering(status, status === 204 ? '' : 'SECRET', { location: `${witness.prefix}/SECRET` })(
          response,
          '',
        );
      };
      const error = await rejection(give(sink(), 10));
      expect(error).toBeInstanceOf(SinkTrouble);
      expect(error).not.toBeInstanceOf(SinkForked);
      expect(error.message).toContain(String(status));
      expect(error.message).not.toContain('SECRET');
      expect(asked).toBe(1);
      expect(fs.readdirSync(directory)).toEqual([]);
    },
  );

  test('that answers with 409 because another one posts at the same time is asked only twice', async () => {
    const { witness, sink } = await meet();
    let known = 3;
    witness.instead = (response) =>
      answering(409, `${++known}\n`, { 'content-type': 'text/x.tlog.size' })(response, '');
    expect((await rejection(give(sink(), 10))).message).toMatch(
      /^saw another checkpoint of this log just now \(409\)/,
    );
    expect(known).toBe(5);
  });

  test.each([
    ['5\n', 'text/plain'],
    ['05\n', 'text/x.tlog.size'],
    ['-5\n', 'text/x.tlog.size'],
    ['5\n5\n', 'text/x.tlog.size'],
    ['', 'text/x.tlog.size'],
    ['9007199254740993\n', 'text/x.tlog.size'],
    ['1e3\n', 'text/x.tlog.size'],
  ])('that answers with 409 and %j as %s is not taken for a witness', async (body, type) => {
    const { witness, sink } = await meet();
    witness.instead = answering(409, body, { 'content-type': type });
    expect((await rejection(give(sink(), 10))).message).toBe(
      'answers with 409 and without a tree size; this is not a witness',
    );
  });
});

describe('an answer', () => {
  const text = parseNote(log.note(10)).text;

  async function answered(
    body: (witness: FakeWitness) => string,
  ): Promise<{ message: string; kept: string[] }> {
    const { witness, directory, sink } = await meet();
    witness.instead = (response) => answering(200, body(witness))(response, '');
    const { message } = await rejection(give(sink(), 10));
    return { message, kept: fs.readdirSync(directory) };
  }

  test('may hold cosignatures by others, which are not kept', async () => {
    const { witness, file, sink } = await meet();
    const other = new FakeWitness('witness.example/w2');
    const sameName = new FakeWitness();
    witness.instead = (response) =>
      answering(200, other.cosignature(text) + witness.cosignature(text) + sameName.cosignature(text))(
        response,
        '',
      );
    await give(sink(), 10);
    const names = parseNote(fs.readFileSync(file, 'utf8')).signatures.map(({ keyId }) => keyId);
    expect(names).toEqual([log.signer.key.keyId, witness.key.keyId]);
  });

  test('without a cosignature by the witness is refused', async () => {
    const other = new FakeWitness();
    expect(await answered(() => other.cosignature(text))).toEqual({
      message: 'answers without a cosignature by the configured key: it may have another key',
      kept: [],
    });
  });

  test('with a cosignature over another checkpoint, by another key, or without a time, is refused', async () => {
    const message =
      'answers with a cosignature that does not verify: it cosigned something else, or has another key';
    const other = parseNote(log.note(11)).text;
    const forgeries: ((witness: FakeWitness) => string)[] = [
      (witness) => witness.cosignature(other),
      (witness) => witness.cosignature(text, 0n),
      (witness) => {
        const forger = new FakeWitness(witness.name);
        Object.assign(forger, { key: witness.key });
        return forger.cosignature(text);
      },
      (witness) => witness.cosignature(text) + witness.cosignature(other),
    ];
    for (const forgery of forgeries) expect(await answered(forgery)).toEqual({ message, kept: [] });
  });

  test('of rubbish is refused', async () => {
    const message = 'answers without cosignatures; this is not a witness';
    const bodies = [
      '',
      '\n',
      '<html>\n',
      '\u2014 witness.example/w1 AAAA\n',
      '\u2014 a b c\n',
      'x'.repeat(60_000),
      '\0',
    ];
    for (const body of bodies) expect(await answered(() => body)).toEqual({ message, kept: [] });
    // A text of its own before the signatures would be another note.
    const { message: other } = await answered(
      (witness) => `more\n\n${witness.cosignature(`${text}\nmore\n`)}`,
    );
    expect(other).toMatch(/^answers with/);
  });

  test('that is huge or without end is not read to the end', async () => {
    const { witness, sink } = await meet();
    let written = 0;
    witness.instead = (response) => {
      const piece = Buffer.alloc(16 * 1024, '\u2014 ');
      const more = () => {
        while (!response.destroyed && written < 1 << 30) {
          written += piece.length;
          if (!response.write(piece)) {
            response.once('drain', more);
            return;
          }
        }
      };
      response.writeHead(200);
      more();
      return true;
    };
    expect((await rejection(give(sink(), 10))).message).toBe(
      'answers with more than 64 KiB; this is not a witness',
    );
    expect(written).toBeLessThan(64 << 20);
  });

  test('that cannot be written is reported, and the witness is asked again', async () => {
    const { witness, directory, file, sink } = await meet();
    fs.mkdirSync(file);
    const one = sink();
    // The first reading fails already: it is a directory.
    expect((await rejection(give(one, 10))).message).toBe(`${file} cannot be read or written (EISDIR)`);
    fs.rmdirSync(file);
    fs.mkdirSync(`${file}.draft`);
    expect((await rejection(give(one, 10))).message).toMatch(/ cannot be read or written \(\w*EISDIR\)$/);
    fs.rmdirSync(`${file}.draft`);
    await give(one, 12);
    expect(witness.asked).toEqual([0, 0, 10]);
    expect(fs.readdirSync(directory)).toEqual([path.basename(file)]);
  });
});

describe('a witness that cannot be reached', () => {
  test('because no one listens, it hangs up, or its name is unknown, is reported with the code of the system', async () => {
    const { witness, directory, sink } = await meet();
    witness.instead = (response) => {
      response.destroy();
      return true;
    };
    expect((await rejection(give(sink(), 10))).message).toMatch(/^cannot be reached \([A-Z_]+\)$/);
    const at = (prefix: string) =>
      new Witness({ prefix, shown: prefix, key: witness.key, directory, log, fetch });
    expect((await rejection(give(at('http://127.0.0.1:1'), 10))).message).toMatch(/^cannot be reached/);
    expect((await rejection(give(at('http://nobody.invalid'), 10))).message).toMatch(
      /^cannot be reached \([A-Z_]+\)$/,
    );
  });

  test('because it never answers, is abandoned when the time is up', async () => {
    const { witness, sink } = await meet();
    witness.instead = () => true;
    const deliver = sink().deliver(log.published(10), attempt({ signal: AbortSignal.timeout(50) }));
    expect(await rejection(deliver)).toBeInstanceOf(SinkTrouble);
  });

  test('because the tree lacks hashes, is not asked', async () => {
    const { witness, directory } = await meet();
    const { prefix, key } = witness;
    const sink = new Witness({ prefix, shown: prefix, key, directory, log, fetch });
    await give(sink, 100);
    const short = new SampleLog(log.signer, leaves(50));
    const blind = new Witness({
      prefix,
      shown: prefix,
      key,
      directory,
      log: short,
      fetch,
    });
    const error = await rejection(give(blind, 200));
    expect(error).not.toBeInstanceOf(SinkForked);
    expect(error.message).toContain('the tree lacks some');
    expect(witness.asked).toEqual([0]);
  });
});
