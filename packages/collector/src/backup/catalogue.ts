/**
 * `files.sha256`: the files of a back-up that never change, a line each, in the order in which they came:
 *
 *   <SHA-256 in hexadecimal>  <file>
 *
 * as `sha256sum --check` reads it too. One list that grows, and not a list in each manifest: after ten years there are
 * tens of thousands of files, and as many manifests. A line is written once its file is on stable storage.
 */
import { KEYS, SEGMENT, SIGNING_KEY } from './manifest.js';

const LINE = /^([0-9a-f]{64}) {2}(\S+)$/;
/** Nothing else is ever laid out, whatever a list says: no name leads out of a directory. */
const FILES = [
  SEGMENT,
  KEYS,
  SIGNING_KEY,
  /^checkpoints\/(\d{16}\.checkpoint|origin\.vkey|rotations\/\d{4}\.note)$/,
];

export interface CatalogueEntry {
  readonly file: string;
  readonly sha256: string;
}

function isCatalogued(file: string): boolean {
  return FILES.some((pattern) => pattern.test(file));
}

export function formatEntry({ file, sha256 }: CatalogueEntry): string {
  return `${sha256}  ${file}\n`;
}

/**
 * The entries up to the first line that is none.
 * @returns how many bytes they are: fewer than there are when the last writing was cut short.
 */
export function readCatalogue(text: string): { entries: CatalogueEntry[]; bytes: number } {
  const entries: CatalogueEntry[] = [];
  const seen = new Set<string>();
  let bytes = 0;
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', bytes)) {
    const [, sha256 = '', file = ''] = LINE.exec(text.slice(bytes, end)) ?? [];
    // Names are ASCII, so that a character is a byte.
    if (!isCatalogued(file) || seen.has(file)) break;
    seen.add(file);
    entries.push({ file, sha256 });
    bytes = end + 1;
  }
  return { entries, bytes };
}
