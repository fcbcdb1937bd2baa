/**
 * The sink `https://...#<vkey>`: posts each newest checkpoint to a witness (C2SP tlog-witness), with a proof
 * that the log continues the tree that the witness saw last, and keeps the cosignature.
 *
 * A witness remembers the largest tree that it saw of this log. So it detects a log that was replaced by an
 * older back-up, or by another log that the same key signed.
 *
 * A DNS look-up occupies a thread of Node's pool. libuv limits look-ups to half of the threads, so they can
 * slow down the ledger's calls but not stop them.
 *
 * Only the cosignature in a witness's answer is used. The answer is never quoted in logs.
 */
import {
  type Checkpoint,
  NoteForged,
  NoteMalformed,
  NoteUnsigned,
  formatNote,
  keyIdText,
  parseCheckpoint,
  parseNote,
} from '@clinical-events/protocol/verify';
import { consistencyProof } from './merkle.js';
import { verifyCosignature, type NoteKey } from './note-signing.js';
import { nodeFiles } from '../files.js';
import { systemCode } from '../system-code.js';
import {
  assertContinues,
  type LogView,
  shorter,
  signedCheckpoint,
  storedHead,
  treeTrouble,
} from './log-view.js';
import { SinkForked, SinkTrouble, type Attempt, type Published, type Sink } from './sink.js';
import fs from 'node:fs/promises';
import path from 'node:path';

/** Time limit for a request and its answer, in milliseconds. */
const ANSWER_MS = 10_000;
/** Maximum size of an answer. A cosignature has less than 4 KiB. */
const MOST_BYTES = 64 * 1024;
/** Media type of an answer with a tree size. */
const SIZE_TYPE = 'text/x.tlog.size';
const SIZE_TEXT = /^(?:0|[1-9]\d{0,15})\n?$/;

export interface WitnessOptions {
  /** URL without a slash at its end. */
  readonly prefix: string;
  readonly shown: string;
  readonly key: NoteKey;
  /** Directory of the cosigned checkpoint. */
  readonly directory: string;
  readonly log: LogView;
  readonly fetch: typeof fetch;
}

interface Answer {
  readonly status: number;
  /** Media type, in lower case and without parameters. */
  readonly type: string;
  /** The body; empty unless the status is 200 or 409. */
  readonly body: string;
}

export class Witness implements Sink {
  readonly wants = 'newest';
  readonly shown: string;
  readonly #file: CosignedFile;
  /** The checkpoint that it cosigned last; undefined until the file was read. */
  #cosigned: { readonly checkpoint: Checkpoint | undefined } | undefined;

  constructor(private readonly options: WitnessOptions) {
    this.shown = options.shown;
    this.#file = new CosignedFile(options.directory, options.key);
  }

  async deliver(published: Published, { signal }: Attempt): Promise<void> {
    const { checkpoint } = published;
    const cosigned = await this.#lastCosigned(checkpoint.origin);
    if (cosigned !== undefined) {
      const where = `${this.#file.path}, which this witness cosigned, is`;
      await assertContinues(cosigned, checkpoint, where, this.options.log);
    }
    if ((cosigned?.size ?? -1) < checkpoint.size) await this.#submit(published, cosigned?.size ?? 0, signal);
  }

  async #lastCosigned(origin: string): Promise<Checkpoint | undefined> {
    try {
      this.#cosigned ??= { checkpoint: await this.#file.read(origin, this.options.log) };
    } catch (error) {
      throw fileTrouble(this.#file.path, error);
    }
    return this.#cosigned.checkpoint;
  }

  /** On return the witness has cosigned the checkpoint, and the cosignature is stored. */
  async #submit(published: Published, assumedSize: number, signal: AbortSignal): Promise<void> {
    let submitted = published;
    let oldSize = assumedSize;
    let answer = await this.#post(submitted, oldSize, signal);
    const corrected = answer.status === 409;
    if (corrected) {
      oldSize = statedSize(answer);
      // Another collector on the same database may have submitted a newer one.
      if (oldSize > submitted.checkpoint.size) submitted = await storedHead(this.options.log);
      const { size } = submitted.checkpoint;
      if (oldSize > size) {
        throw shorter(`the witness has seen this log with ${oldSize} entries`, size, this.options.log);
      }
      answer = await this.#post(submitted, oldSize, signal);
    }
    if (answer.status === 422 && corrected) {
      throw new SinkForked(
        `the witness has seen this log with ${oldSize} entries that are not the first ${oldSize} of this ` +
          'ledger (422): it was altered, or an older back-up was restored and continued differently; see ' +
          'collector verify',
      );
    }
    if (answer.status !== 200) throw refusal(answer.status, submitted.checkpoint, oldSize);
    await this.#keep(submitted, answer.body);
  }

  /** @throws {@link SinkTrouble} without an answer. */
  async #post({ note, checkpoint }: Published, oldSize: number, signal: AbortSignal): Promise<Answer> {
    const { prefix, log } = this.options;
    let proof: Buffer[];
    try {
      proof = await consistencyProof(log.tree, oldSize, checkpoint.size);
    } catch (error) {
      throw treeTrouble(error);
    }
    const lines = proof.map((hash) => `${hash.toString('base64')}\n`).join('');
    const body = `old ${oldSize}\n${lines}\n${note}`;
    try {
      const response = await this.options.fetch(`${prefix}/add-checkpoint`, {
        method: 'POST',
        body,
        signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
        // Only the operator decides which address to trust.
        redirect: 'manual',
      });
      return await answerOf(response);
    } catch (error) {
      throw networkTrouble(error);
    }
  }

  async #keep({ note, checkpoint }: Published, body: string): Promise<void> {
    const cosigned = this.#cosign(note, body);
    try {
      await this.#file.write(cosigned);
    } catch (error) {
      throw fileTrouble(this.#file.path, error);
    }
    this.#cosigned = { checkpoint };
  }

  /**
   * @returns the note with the witness's cosignature below the log's signatures.
   * @throws {@link SinkTrouble} if the answer lacks a valid cosignature.
   */
  #cosign(note: string, answered: string): string {
    const { key } = this.options;
    const { text, signatures } = parseNote(note);
    try {
      const ofWitness = parseNote(`${text}\n${answered}`).signatures.filter(
        ({ name, keyId }) => name === key.name && keyId === key.keyId,
      );
      const cosigned = formatNote(text, [...signatures, ...ofWitness]);
      verifyCosignature(cosigned, key);
      return cosigned;
    } catch (error) {
      throw cosignatureTrouble(error);
    }
  }
}

/** @throws {@link SinkTrouble} if the answer is too large. */
async function answerOf(response: Response): Promise<Answer> {
  const { status } = response;
  const [type = ''] = (response.headers.get('content-type') ?? '').toLowerCase().split(';');
  if (status !== 200 && status !== 409) {
    await response.body?.cancel();
    return { status, type: type.trim(), body: '' };
  }
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  // Leaving the loop cancels the rest.
  for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += piece.length;
    if (bytes > MOST_BYTES) throw new SinkTrouble('answers with more than 64 KiB; this is not a witness');
    pieces.push(piece);
  }
  return { status, type: type.trim(), body: Buffer.concat(pieces).toString() };
}

function statedSize({ type, body }: Answer): number {
  const size = Number(body);
  if (type === SIZE_TYPE && SIZE_TEXT.test(body) && Number.isSafeInteger(size)) return size;
  throw new SinkTrouble('answers with 409 and without a tree size; this is not a witness');
}

function refusal(status: number, { origin, size }: Checkpoint, oldSize: number): SinkTrouble {
  const known: Readonly<Record<number, string>> = {
    400: 'refuses the request as malformed (400): the address may not belong to a witness',
    403: 'does not know the signing key (403): give it the key that collector signing-key show prints',
    404: `does not know this log (404): have its operator add the origin ${origin}, or correct the address`,
    409: 'saw another checkpoint of this log just now (409): does a second collector run with the same key?',
    422: `reports that ${size} entries do not continue its ${oldSize} (422): see collector verify`,
    429: 'limits the rate of requests (429)',
  };
  if (status >= 300 && status < 400) {
    return new SinkTrouble(`redirects (${status}), which is not followed: give its final address`);
  }
  return new SinkTrouble(known[status] ?? `answers with ${status}`);
}

function cosignatureTrouble(error: unknown): SinkTrouble {
  const known =
    error instanceof NoteUnsigned
      ? 'answers without a cosignature by the configured key: it may have another key'
      : error instanceof NoteForged
        ? 'answers with a cosignature that does not verify: it cosigned something else, or has another key'
        : error instanceof NoteMalformed
          ? 'answers without cosignatures; this is not a witness'
          : undefined;
  return new SinkTrouble(known ?? 'answers with a cosignature that cannot be checked', { cause: error });
}

function networkTrouble(error: unknown): SinkTrouble {
  if (error instanceof SinkTrouble) return error;
  if (error instanceof Error && error.name === 'TimeoutError') {
    return new SinkTrouble(`gives no answer within ${ANSWER_MS / 1000} seconds`, { cause: error });
  }
  // The system's error is the cause of fetch's error, or the cause of that.
  let code: string | undefined;
  for (let at = error; at instanceof Error && code === undefined; at = at.cause) code = systemCode(at);
  return new SinkTrouble(`cannot be reached${code === undefined ? '' : ` (${code})`}`, { cause: error });
}

function fileTrouble(file: string, error: unknown): SinkTrouble {
  const code = systemCode(error) ?? 'UNKNOWN';
  return new SinkTrouble(`${file} cannot be read or written (${code})`, { cause: error });
}

/**
 * `checkpoints/cosigned-<key id>` in the data directory: the newest checkpoint that the witness cosigned,
 * with the signatures of the log and of the witness. It is evidence for auditors, and the start of the next
 * consistency proof.
 */
class CosignedFile {
  readonly path: string;

  constructor(
    directory: string,
    private readonly witness: NoteKey,
  ) {
    this.path = path.join(directory, `cosigned-${keyIdText(witness.keyId)}`);
  }

  /**
   * @returns the checkpoint; undefined without a file, or if the file is not a checkpoint of this log with
   *   the witness's cosignature: then the witness's answer states its size.
   * @throws the system's error if the file cannot be read.
   */
  async read(origin: string, log: LogView): Promise<Checkpoint | undefined> {
    let note: string;
    try {
      note = await fs.readFile(this.path, 'utf8');
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
    try {
      signedCheckpoint(note, origin, log);
      return parseCheckpoint(verifyCosignature(note, this.witness).text);
    } catch {
      return undefined;
    }
  }

  /** On return the note has durably replaced the previous one. A crash leaves one of the two. */
  async write(note: string): Promise<void> {
    nodeFiles.makeDirectory(path.dirname(this.path));
    await nodeFiles.replace(this.path, Buffer.from(note));
  }
}
