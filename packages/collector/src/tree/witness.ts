/**
 * `https://...#<vkey>` posts the newest checkpoint to a witness each time (C2SP tlog-witness), with a proof that the
 * ledger continues what the witness saw last, and keeps the cosignature.
 *
 * A witness remembers the size of the largest tree that it saw of this log. So it finds out when the ledger was
 * replaced by an older back-up of itself, or by another one that was signed with the right key.
 *
 * Looking up its name takes a thread of Node's pool for as long as the resolver takes. Such look-ups get half of the
 * threads at most (libuv), so they slow the ledger's calls down and do not stop them.
 *
 * What a witness answers is not believed but for its cosignature, and never quoted: logs are no place for the texts
 * of strangers.
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

/** Milliseconds for a request and its answer. */
const ANSWER_MS = 10_000;
/** A cosignature has less than 4 KiB. */
const MOST_BYTES = 64 * 1024;
/** With the statement of a tree size in it. */
const SIZE_TYPE = 'text/x.tlog.size';
const SIZE_TEXT = /^(?:0|[1-9]\d{0,15})\n?$/;

export interface WitnessOptions {
  /** Without a slash at its end. */
  readonly prefix: string;
  readonly shown: string;
  readonly key: NoteKey;
  /** Where the cosigned checkpoint is kept. */
  readonly directory: string;
  readonly log: LogView;
  readonly fetch: typeof fetch;
}

interface Answer {
  readonly status: number;
  /** Media type, in lower case and without parameters. */
  readonly type: string;
  /** Of a status that speaks in its body, else empty. */
  readonly body: string;
}

export class Witness implements Sink {
  readonly wants = 'newest';
  readonly shown: string;
  readonly #file: CosignedFile;
  /** What it cosigned last; not known before the file was read. */
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

  /** On return the witness has cosigned the checkpoint, and that is kept. */
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
        `the witness has seen this log with ${oldSize} entries that are not the first ${oldSize} of this ledger (422): ` +
          'it was altered, or restored from an older back-up and then went on differently; see collector verify',
      );
    }
    if (answer.status !== 200) throw refusal(answer.status, submitted.checkpoint, oldSize);
    await this.#keep(submitted, answer.body);
  }

  /** @throws {@link SinkTrouble} when there is no answer. */
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
        // Another address is for anyone who runs this collector to trust.
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
   * @throws {@link SinkTrouble} when that is not among what the witness answered.
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

/** @throws {@link SinkTrouble} when the answer is larger than any answer is. */
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
    if (bytes > MOST_BYTES) throw new SinkTrouble('answers with more than 64 KiB; this is no witness');
    pieces.push(piece);
  }
  return { status, type: type.trim(), body: Buffer.concat(pieces).toString() };
}

function statedSize({ type, body }: Answer): number {
  const size = Number(body);
  if (type === SIZE_TYPE && SIZE_TEXT.test(body) && Number.isSafeInteger(size)) return size;
  throw new SinkTrouble('answers with 409 and does not say which size it knows; this is no witness');
}

function refusal(status: number, { origin, size }: Checkpoint, oldSize: number): SinkTrouble {
  const known: Readonly<Record<number, string>> = {
    400: 'takes the request for malformed (400): the address may not be that of a witness',
    403: `does not know the key that signs (403): give it the verifier key that collector signing-key show prints`,
    404: `does not know this log (404): have its operator add the origin ${origin}, or correct the address`,
    409: 'saw another checkpoint of this log just now (409): does a second collector run with the same key?',
    422: `finds that ${size} entries do not continue the ${oldSize} that it saw (422): see collector verify`,
    429: 'wants to be asked less often (429)',
  };
  if (status >= 300 && status < 400) {
    return new SinkTrouble(`sends elsewhere (${status}), which is not followed: give its final address`);
  }
  return new SinkTrouble(known[status] ?? `answers with ${status}`);
}

function cosignatureTrouble(error: unknown): SinkTrouble {
  const known =
    error instanceof NoteUnsigned
      ? 'answers without a cosignature by the key that was given for it: it may have another one'
      : error instanceof NoteForged
        ? 'answers with a cosignature that does not verify: it cosigned something else, or has another key'
        : error instanceof NoteMalformed
          ? 'answers with something else than cosignatures; this is no witness'
          : undefined;
  return new SinkTrouble(known ?? 'answers with a cosignature that cannot be checked', { cause: error });
}

function networkTrouble(error: unknown): SinkTrouble {
  if (error instanceof SinkTrouble) return error;
  if (error instanceof Error && error.name === 'TimeoutError') {
    return new SinkTrouble(`gives no answer within ${ANSWER_MS / 1000} seconds`, { cause: error });
  }
  // What fetch throws names its cause below, or below that.
  let code: string | undefined;
  for (let at = error; at instanceof Error && code === undefined; at = at.cause) code = systemCode(at);
  return new SinkTrouble(`cannot be reached${code === undefined ? '' : ` (${code})`}`, { cause: error });
}

function fileTrouble(file: string, error: unknown): SinkTrouble {
  const code = systemCode(error) ?? 'UNKNOWN';
  return new SinkTrouble(`${file} cannot be read or written (${code})`, { cause: error });
}

/**
 * `checkpoints/cosigned-<key id>` in the data directory: the newest checkpoint that a witness has cosigned, with the log's
 * signatures and the witness's. It is what an auditor asks for, and says from where the witness wants a consistency proof
 * the next time.
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
   * @returns the checkpoint, or undefined without a file, or when it is not one of this log with the witness's
   *   cosignature: then the witness itself tells how much it has seen of the log.
   * @throws the system's error when the file cannot be read.
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

  /** On return the note is in the place of the one before, on stable storage. A crash leaves one of the two. */
  async write(note: string): Promise<void> {
    nodeFiles.makeDirectory(path.dirname(this.path));
    await nodeFiles.replace(this.path, Buffer.from(note));
  }
}
