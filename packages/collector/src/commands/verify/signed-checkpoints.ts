/** Selects, among the notes given to `collector verify`, the checkpoints of this log. */
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { verifyNote } from '../../tree/note-signing.js';
import { finding, type FindingList } from '../../store/findings.js';
import type { CheckedRoot } from '../../store/log-audit.js';
import { messageOf } from '../../system-code.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import { type GivenNote, readNote } from './signed-notes.js';
import type { LogKeys } from './trusted-keys.js';

interface Judged {
  readonly checkpoint: Checkpoint;
  /** Whether only a key older than the given ones has signed it. */
  readonly earlier: boolean;
}

/** Why a note is not a checkpoint of this log. */
interface Refusal {
  readonly why: string;
  /**
   * `cut`: kept elsewhere and unparsable; someone who can truncate it can also remove it. `other`: of another
   * log only.
   */
  readonly as: 'fault' | 'cut' | 'other';
}

/** Notes in one place, refused for one reason. */
interface Refused extends Refusal, Pick<GivenNote, 'source' | 'file'> {
  count: number;
}

export class SignedCheckpoints {
  /** Each size and root once. */
  readonly roots: CheckedRoot[] = [];
  /** Notes that are checkpoints of this log. */
  checked = 0;
  /** The number of them kept outside the data directory. */
  given = 0;
  /** Whether the data directory has a newest checkpoint, valid or not. */
  hasNewest = false;
  /** The largest in the data directory. */
  newest: CheckedRoot | undefined;
  readonly #byContent = new Map<string, CheckedRoot>();
  /** Notes that could not be checked for lack of a key. */
  #unchecked = 0;
  /** The sources of the checkpoints that only an earlier key has signed. */
  readonly #earlier: string[] = [];

  constructor(
    private readonly keys: LogKeys,
    private readonly findings: FindingList,
  ) {}

  /**
   * Takes the notes of the data directory, or those at a given path. Two logs may share such a path:
   * checkpoints of another log are not a fault if there are also some of this one.
   * @throws CommandFailure if the path has no note.
   */
  take(notes: Iterable<GivenNote>, given?: string): void {
    const refused = new Map<string, Refused>();
    const before = this.checked;
    let found = 0;
    for (const each of notes) {
      found++;
      this.hasNewest ||= each.source === 'checkpoints/latest';
      if (this.keys.keys.length === 0) {
        this.#unchecked++;
        continue;
      }
      const judged = this.#judge(each);
      if ('checkpoint' in judged) {
        this.#accept(each, judged);
        continue;
      }
      const { source, file } = each;
      const known = refused.get(judged.why);
      if (known === undefined) refused.set(judged.why, { ...judged, source, file, count: 1 });
      else known.count++;
    }
    if (given !== undefined && found === 0) {
      throw new CommandFailure(
        `${given} holds no checkpoint (subdirectories are not read): nothing was compared`,
        EXIT.notFound,
      );
    }
    this.#report([...refused.values()], given, this.checked > before);
  }

  #report(refused: readonly Refused[], given: string | undefined, hasOwn: boolean): void {
    const isFault = ({ as }: Refused) =>
      as === 'fault' || (as === 'other' && !(hasOwn && given !== undefined));
    if (given !== undefined && !hasOwn && refused.length > 0 && !refused.some(isFault))
      this.findings.add(finding('no_checkpoint', { file: given }, given));
    for (const each of refused) {
      const name = isFault(each) ? 'checkpoint_unfit' : 'checkpoint_passed_over';
      this.findings.add(finding(name, { file: each.file }, each.source, each.why, each.count - 1));
    }
  }

  #accept({ source, file, outside }: GivenNote, { checkpoint, earlier }: Judged): void {
    const { origin, size } = checkpoint;
    const root = Buffer.from(checkpoint.root);
    this.checked++;
    if (outside) this.given++;
    if (earlier) this.#earlier.push(source);
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

  /** Call after the last `take`. */
  finish(): void {
    const { newest } = this;
    if (this.#unchecked > 0) this.findings.add(finding('checkpoints_unchecked', {}, this.#unchecked));
    const [first] = this.#earlier;
    if (first === undefined) return;
    if (newest !== undefined && this.#earlier.includes(newest.source))
      this.findings.add(finding('newest_by_earlier_key', { file: newest.file }, newest.source));
    this.findings.add(finding('signed_by_earlier_keys', {}, first, this.#earlier.length - 1));
  }

  #judge({ note, size, outside }: GivenNote): Judged | Refusal {
    const read = readNote(note);
    if (typeof read === 'string' || read.checkpoint === undefined) {
      if (outside) return { why: 'it is truncated or not a checkpoint', as: 'cut' };
      return { why: typeof read === 'string' ? read : 'it is a rotation note', as: 'fault' };
    }
    const { checkpoint, signatures } = read;
    const { keys, earlier } = this.keys;
    const isOfLog = (origin: string) => keys.some(({ name }) => name === origin);
    if (!isOfLog(checkpoint.origin)) {
      // If this log signed it, the text was changed.
      const isOther = !signatures.some(({ name }) => isOfLog(name));
      return { why: `it is of the log ${checkpoint.origin}`, as: isOther ? 'other' : 'fault' };
    }
    if (size !== undefined && size !== checkpoint.size)
      return { why: `it covers ${checkpoint.size} entries, but its name says ${size}`, as: 'fault' };
    try {
      const { signedBy } = verifyNote(note, [...keys, ...earlier]);
      const believed = signedBy.filter(({ name }) => name === checkpoint.origin);
      if (believed.length === 0) return { why: 'it was signed with the key of another log', as: 'fault' };
      return { checkpoint, earlier: !believed.some((key) => keys.includes(key)) };
    } catch (error) {
      return { why: messageOf(error), as: 'fault' };
    }
  }
}
