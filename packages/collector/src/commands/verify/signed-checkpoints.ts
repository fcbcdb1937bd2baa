/** Which of the notes that `collector verify` was given are checkpoints of this log. */
import { parseCheckpoint, parseNote, type Checkpoint } from '@clinical-events/protocol/verify';
import { counted } from '../../quantity.js';
import { verifyNote } from '../../integrity/note-signing.js';
import type { CheckedRoot, FindingList } from '../../store/log-audit.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import type { GivenNote } from './given-checkpoints.js';
import type { LogKeys } from './trusted-keys.js';

/** What stands in one place, and is no checkpoint of this log. */
interface PassedOver {
  /** By the log that they are of. */
  readonly others: Map<string, Refused>;
  /** By what is said of them. */
  readonly refused: Map<string, Refused>;
  /** Notes that are cut short without a fault. */
  cut: number;
}

interface Refused {
  /** The first of them. */
  readonly source: string;
  readonly file: string;
  count: number;
}

/** A checkpoint of another log, signed in that one's name alone. */
class OfAnotherLog extends Error {
  constructor(readonly origin: string) {
    super(`it is of the log ${origin}`);
  }
}

export class SignedCheckpoints {
  /** Each size and root once. */
  readonly roots: CheckedRoot[] = [];
  /** Notes that are checkpoints of this log. */
  checked = 0;
  /** How many of them were kept outside of the data directory. */
  given = 0;
  /** Whether the data directory has a newest one, whatever it says. */
  hasNewest = false;
  /** The largest of the data directory. */
  newest: CheckedRoot | undefined;
  readonly #byContent = new Map<string, CheckedRoot>();
  /** Notes that could not be checked, as there is no key. */
  #unchecked = 0;
  /** Where those are that only an earlier key has signed. */
  readonly #earlier: string[] = [];

  constructor(
    private readonly keys: LogKeys,
    private readonly findings: FindingList,
  ) {}

  /**
   * Takes the notes of the data directory, or those that were found at a path that someone gave. Two logs may share
   * such a place: checkpoints of another one are no fault there, if there are any of this one.
   * @throws CommandFailure when there is none at all at that path.
   */
  take(notes: Iterable<GivenNote>, given?: string): void {
    const passed: PassedOver = { others: new Map(), refused: new Map(), cut: 0 };
    const before = this.checked;
    let found = 0;
    for (const note of notes) {
      found++;
      this.hasNewest ||= note.source === 'checkpoints/latest';
      if (this.keys.keys.length === 0) this.#unchecked++;
      else this.#takeOne(note, passed);
    }
    if (given !== undefined && found === 0) {
      throw new CommandFailure(
        `${given} holds no checkpoint (directories in it are not read): nothing was compared`,
        EXIT.notFound,
      );
    }
    this.#tell(passed, given, this.checked - before);
  }

  #tell({ others, refused, cut }: PassedOver, given: string | undefined, checked: number): void {
    if (given === undefined || checked === 0) {
      for (const [origin, each] of others) addTo(refused, noCheckpoint(new OfAnotherLog(origin)), each);
    } else {
      for (const [origin, { source, file, count }] of others) {
        const more = count > 1 ? `, like ${count - 1} more` : '';
        const message = `${source} is a checkpoint of another log, ${origin}, and was passed over${more}`;
        this.findings.add({ kind: 'note', file, message });
      }
    }
    if (given !== undefined && checked === 0 && cut > 0 && refused.size === 0) {
      const message = `${given} holds no whole checkpoint: nothing was compared`;
      this.findings.add({ kind: 'checkpoint_invalid', file: given, message });
    }
    for (const [says, { source, file, count }] of refused) {
      const more = count > 1 ? `; the same goes for ${count - 1} more` : '';
      this.findings.add({ kind: 'checkpoint_invalid', file, message: `${source} ${says}${more}` });
    }
  }

  #takeOne(given: GivenNote, passed: PassedOver): void {
    const { note, source, file, outside } = given;
    let judged: { checkpoint: Checkpoint; earlier: boolean };
    try {
      judged = this.#judge(given);
    } catch (error) {
      const cut = isMalformed(note) ? given.cutBecause?.() : undefined;
      if (cut !== undefined) {
        const message = `${source} is cut short, and passed over: ${cut}`;
        this.findings.add({ kind: 'note', file, message });
        passed.cut++;
      } else if (error instanceof OfAnotherLog) addTo(passed.others, error.origin, given);
      else addTo(passed.refused, note.trim() === '' ? 'is empty' : noCheckpoint(error), given);
      return;
    }
    const { origin, size, root: bytes } = judged.checkpoint;
    const root = Buffer.from(bytes);
    this.checked++;
    if (outside) this.given++;
    if (judged.earlier) this.#earlier.push(source);
    const content = `${size} ${root.toString('base64')}`;
    const known = this.#byContent.get(content);
    if (known !== undefined) {
      known.outside ||= outside;
      return;
    }
    const checked = { size, root, origin, source, file, outside };
    this.#byContent.set(content, checked);
    this.roots.push(checked);
    if (!outside && size >= (this.newest?.size ?? 0)) this.newest = checked;
  }

  /** To be called when all are taken. */
  finish(): void {
    if (this.#unchecked > 0) {
      const message = `${counted(this.#unchecked, 'checkpoint')} cannot be checked: there is no key of the log`;
      this.findings.add({ kind: 'checkpoint_invalid', message });
    }
    const [first] = this.#earlier;
    if (first === undefined) return;
    const { newest } = this;
    if (newest !== undefined && this.#earlier.includes(newest.source)) {
      const message =
        `${newest.source} is signed by a key from before those given, and by none of them; ` +
        "give the log's first key, or wait for the next checkpoint";
      this.findings.add({ kind: 'checkpoint_invalid', file: newest.file, message });
    }
    const others = this.#earlier.length === 1 ? '' : ` and ${this.#earlier.length - 1} more`;
    const message = `${first}${others}: signed by keys from before those given, and held against the log all the same`;
    this.findings.add({ kind: 'note', message });
  }

  /** @throws when the note is no checkpoint of this log, in words that follow a colon. */
  #judge({ note, size }: GivenNote): { checkpoint: Checkpoint; earlier: boolean } {
    const { text, signatures } = parseNote(note);
    const checkpoint = parseCheckpoint(text);
    const { keys, earlier } = this.keys;
    const isOfLog = (origin: string) => keys.some(({ name }) => name === origin);
    if (!isOfLog(checkpoint.origin)) {
      const other = new OfAnotherLog(checkpoint.origin);
      // One that this log has signed has been changed.
      throw signatures.some(({ name }) => isOfLog(name)) ? new Error(other.message) : other;
    }
    assertNamed(size, checkpoint);
    const { signedBy } = verifyNote(note, [...keys, ...earlier]);
    const believed = signedBy.filter(({ name }) => name === checkpoint.origin);
    if (believed.length === 0) throw new Error('the key that signed it is of another log');
    return { checkpoint, earlier: !believed.some((key) => keys.includes(key)) };
  }
}

/** @throws when the name of a file promises another size than its checkpoint has. */
function assertNamed(named: number | undefined, { size }: Checkpoint): void {
  if (named === undefined || named === size) return;
  throw new Error(`it speaks of ${size} entries, and its name of ${named}`);
}

function addTo(
  refused: Map<string, Refused>,
  says: string,
  { source, file, count = 1 }: Pick<Refused, 'source' | 'file'> & { readonly count?: number },
): void {
  const known = refused.get(says);
  if (known === undefined) refused.set(says, { source, file, count });
  else known.count += count;
}

function noCheckpoint(error: unknown): string {
  return `is not a checkpoint of this log: ${error instanceof Error ? error.message : String(error)}`;
}

function isMalformed(note: string): boolean {
  try {
    parseCheckpoint(parseNote(note).text);
    return !note.endsWith('\n');
  } catch {
    return true;
  }
}
