/**
 * Reads the inputs line by line, has each event examined as one that came by HTTP is, and gathers batches for the ledger.
 * Whatever is wrong with a line is told of in its batch, and the next line is read.
 */
import type { Profile } from '@clinical-events/protocol';
import { examine, type Examined } from '../ledger/examine.js';
import { BatchBuilder, BlockPool, type GoodLine, type PreparedBatch } from './batch.js';
import { CompressionInvalid, Input } from './input.js';
import type { LineFault } from './line-fault.js';
import { LineSplitter, type Line } from './line-splitter.js';
import { uuidText } from '../store/text.js';
import { readLine, uuidIn, type Offered, type Stated } from './offered-line.js';
import { fixTimestamps } from './timestamp-fix.js';
import { Zone } from './zone.js';

/** Plain data, so that it can be handed to a thread. */
export interface PreparationSettings {
  /** Paths, and `-` for standard input. */
  readonly inputs: readonly string[];
  readonly stated: Stated;
  /** For lines that name none, when the operator has stated none. */
  readonly organisation: string;
  readonly profile: Profile;
  readonly maxBodyBytes: number;
  readonly maxDepth: number;
  /** The zone of timestamps without an offset, when these are to be fixed. */
  readonly zone: string | undefined;
}

/** A body in a wrapper is a JSON string, in which each byte may take six: `\u007f`. The rest is the wrapper's own. */
const SPELLING = 6;
const WRAPPER_BYTES = 4096;
/** An input that pauses so long, in milliseconds, leaves time to store what came before. */
const PAUSE_MS = 200;
/** Told at least so often, in bytes read, how far it has come. */
const TELL_EVERY = 16 << 20;
/** @param pool to which the blocks of batches that are stored may be given. */
export async function* prepare(
  settings: PreparationSettings,
  standardInput: AsyncIterable<Buffer>,
  pool = new BlockPool(),
): AsyncGenerator<PreparedBatch, void> {
  let bytesRead = 0;
  for (const [place, name] of settings.inputs.entries()) {
    const onRead = (bytes: number) => (bytesRead += bytes);
    const input = new Input(name, standardInput, onRead);
    yield* new Preparation(settings, place, input, () => bytesRead, pool).batches();
  }
}

/** One input. */
class Preparation {
  readonly #settings: PreparationSettings;
  readonly #place: number;
  readonly #input: Input;
  readonly #bytesRead: () => number;
  readonly #zone: Zone | undefined;
  readonly #pool: BlockPool;
  #batch: BatchBuilder;
  #lines = 0;
  #empty = 0;
  #fixed = 0;
  #toldAt: number;

  constructor(
    settings: PreparationSettings,
    place: number,
    input: Input,
    bytesRead: () => number,
    pool: BlockPool,
  ) {
    this.#settings = settings;
    this.#place = place;
    this.#input = input;
    this.#bytesRead = bytesRead;
    this.#toldAt = bytesRead();
    this.#pool = pool;
    this.#batch = new BatchBuilder(1, pool);
    if (settings.zone !== undefined) this.#zone = new Zone(settings.zone);
  }

  async *batches(): AsyncGenerator<PreparedBatch, void> {
    const splitter = new LineSplitter(SPELLING * this.#settings.maxBodyBytes + WRAPPER_BYTES);
    try {
      for await (const chunk of withPauses(this.#input.chunks(), PAUSE_MS)) {
        if (chunk !== undefined) for (const line of splitter.push(chunk)) yield* this.#take(line);
        const behind = this.#bytesRead() - this.#toldAt;
        const waits = chunk === undefined && !this.#batch.isEmpty;
        if (waits || behind >= TELL_EVERY) yield this.#cut();
      }
      for (const line of splitter.end()) yield* this.#take(line);
      yield this.#cut(this.#input.digest());
    } catch (error) {
      if (!(error instanceof CompressionInvalid)) throw error;
      this.#batch.refuse({ line: 0, code: 'invalid_compression', outcome: 'rejected', bytes: undefined });
      yield this.#cut();
    }
  }

  /** Yields the batch before a line that does not fit into it any more, and the one that the line has filled. */
  *#take(line: Line): Generator<PreparedBatch, void> {
    const good = this.#read(line);
    if (good !== undefined) {
      if (!this.#batch.fits(good)) yield this.#cut();
      this.#batch.add(good);
    }
    this.#lines = line.number;
    if (this.#batch.isFull) yield this.#cut();
  }

  /** @returns what is to be stored of a line; undefined for one that is empty, or faulty, which is noted. */
  #read({ number, offset, length, bytes }: Line): GoodLine | undefined {
    if (bytes === undefined) {
      // Not held, and so not in the reject file: where it stands instead.
      const details = { bytes: length, offset };
      this.#batch.refuse({ line: number, code: 'body_too_large', details, outcome: 'rejected', bytes });
      return undefined;
    }
    if (isBlank(bytes)) {
      this.#empty++;
      return undefined;
    }
    const offered = readLine(bytes, this.#settings);
    const good = 'code' in offered ? offered : this.#examine(offered);
    if ('code' in good) {
      // A copy of its own: of a buffer from Node's pool, the whole pool would be handed to the other thread.
      this.#batch.refuse({ ...good, line: number, outcome: 'rejected', bytes: new Uint8Array(bytes) });
      return undefined;
    }
    const { kind, profile, organisation } = offered as Offered;
    const lineText = good.body === bytes ? undefined : bytes;
    return { ...good, kind, profile, organisation, lineText, line: number };
  }

  /** @returns the ids and the text to be stored, which differs from what is offered where timestamps had to be fixed. */
  #examine({ kind, profile, body, eventId }: Offered): (Examined & { body: Buffer }) | LineFault {
    const { maxBodyBytes, maxDepth } = this.#settings;
    const check = (text: Buffer): Examined | LineFault =>
      text.length > maxBodyBytes
        ? { code: 'body_too_large', details: { bytes: text.length, limit: maxBodyBytes }, eventId }
        : examine(text, kind, profile, maxDepth);
    let text = body;
    let examined = check(text);
    if ('code' in examined && this.#zone !== undefined) {
      const fixed = fixTimestamps(body, kind, examined, this.#zone);
      if (fixed !== undefined) {
        text = fixed;
        examined = check(text);
        if (!('code' in examined)) this.#fixed++;
      }
    }
    if ('code' in examined) return { ...examined, eventId: eventId ?? idIn(text, examined) };
    if (eventId === undefined || eventId === uuidText(examined.eventId)) return { ...examined, body: text };
    const issue = { pointer: '/event_id', rule: 'const', message: 'must be the event_id of the event' };
    return { code: 'wrapper_invalid', details: { issues: [issue] }, eventId };
  }

  #cut(whole?: PreparedBatch['whole']): PreparedBatch {
    const bytesRead = this.#bytesRead();
    this.#toldAt = bytesRead;
    const reached = { lines: this.#lines, empty: this.#empty, fixed: this.#fixed, bytesRead, whole };
    const batch = this.#batch.cut(this.#place, reached);
    this.#batch = new BatchBuilder(this.#lines + 1, this.#pool);
    return batch;
  }
}

/** Nothing but white space of JSON. */
function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === 32 || byte === 9 || byte === 13);
}

/** The id of an event that is JSON and has other faults. */
function idIn(body: Buffer, { code }: LineFault): string | undefined {
  return code === 'validation_failed' ? uuidIn(JSON.parse(body.toString())) : undefined;
}

/** What the source yields, and `undefined` each time that it takes longer than `ms`. */
async function* withPauses<T>(
  source: AsyncGenerator<T, void>,
  ms: number,
): AsyncGenerator<T | undefined, void> {
  for (;;) {
    const next = source.next();
    while (!(await settlesWithin(next, ms))) yield undefined;
    const { done, value } = await next;
    if (done) return;
    yield value;
  }
}

async function settlesWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
