/**
 * The files of an import, as its lines in the access log tell of them: the first ones each, and of those behind them how
 * many there were, with one SHA-256 over all. A line names at most `MOST_FILES`, in about `MOST_BYTES`, or the log would
 * have lines that nobody reads: a command line may name a hundred thousand files.
 *
 * That SHA-256 is over the others as they would have been listed: each as JSON, with a line feed behind it. Those of the
 * end are therefore what `import --json` prints: `jq -c '.files[1000:][]' | sha256sum`, where a thousand were listed.
 */
import { createHash } from 'node:crypto';
import type { InputTally } from '../importing/importer.js';

const MOST_FILES = 1000;
/** A name may have a few kilobytes, and in JSON six times as many. */
const MOST_BYTES = 1 << 20;

type Counts = Readonly<Record<'lines' | 'stored' | 'repeats' | 'refused', number>>;

export interface ImportedFile extends Counts {
  readonly file: string;
  /** Of the file as it stood on the disk; null when it was not read to its end. */
  readonly bytes: number | null;
  readonly sha256: string | null;
}

interface MoreFiles {
  /** How many files are not listed. */
  readonly count: number;
  readonly sha256: string;
}

/** With the sums of the files that are not listed. */
export interface MoreImported extends MoreFiles, Counts {}

/** For the beginning of an import. */
export function namedFiles(names: readonly string[]): { files: readonly string[]; more_files?: MoreFiles } {
  const { listed, others, more } = parted(names);
  return { files: listed, ...(others.length > 0 && { more_files: more }) };
}

/** For its end: what became of the files. */
export function importedFiles(tallies: readonly InputTally[]): {
  files: readonly ImportedFile[];
  more_files?: MoreImported;
} {
  const all = tallies.map(({ name, lines, stored, repeats, refused, whole }) => ({
    ...{ file: name, lines, stored, repeats, refused },
    ...{ bytes: whole?.bytes ?? null, sha256: whole?.sha256 ?? null },
  }));
  const { listed, others, more } = parted(all);
  const sum = (count: keyof Counts) => others.reduce((total, file) => total + file[count], 0);
  const sums = {
    ...{ lines: sum('lines'), stored: sum('stored') },
    ...{ repeats: sum('repeats'), refused: sum('refused') },
  };
  return { files: listed, ...(others.length > 0 && { more_files: { ...more, ...sums } }) };
}

function parted<Item>(items: readonly Item[]): { listed: Item[]; others: Item[]; more: MoreFiles } {
  const [listed, others]: [Item[], Item[]] = [[], []];
  const sha256 = createHash('sha256');
  let bytes = 0;
  for (const item of items) {
    const json = `${JSON.stringify(item)}\n`;
    bytes += Buffer.byteLength(json);
    if (others.length === 0 && listed.length < MOST_FILES && bytes <= MOST_BYTES) listed.push(item);
    else {
      others.push(item);
      sha256.update(json);
    }
  }
  return { listed, others, more: { count: others.length, sha256: sha256.digest('hex') } };
}
