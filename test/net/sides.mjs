// The names of the two sides, and their names for commands and options. Steps have the commands of the tree; a change
// that renames, merges or moves a command or an option adds a line here. These lines go when the base moves past the change.

/** The program, from the root of a checkout. */
export const PROGRAM = 'packages/collector/dist/main.js';

/** Commands of the tree, and those of the base: `[/^new words /, 'old words ']`. */
const AT_BASE = [
  [/--only contradictory/, '--conflict'],
  [/--only (failed|incomplete)/, '--$1'],
  [/--out (\S+)\/( |$)/, '--partition day --out $1$2'],
  [/^hold add (\S+)/, 'hold add --name $1'],
];

/** @param side base or tree. @returns the words of a command line. */
export function wordsOf(side, command) {
  const rules = side === 'base' ? AT_BASE : [];
  return rules
    .reduce((line, [now, then]) => line.replace(now, then), command)
    .split(' ')
    .filter(Boolean);
}

/** Options of `serve` for a log with more than one segment. */
const segments = (size, options = '') => ({
  options,
  environment: { COLLECTOR_LIMITS: JSON.stringify({ 'segment-bytes': size }) },
});
export const smallSegments = segments('2MiB');
export const tinySegments = segments('256KiB', '--max-body-bytes 128KiB');

/** An answer of the tree, with the names that the base gives its parts. */
export const asNamedAtBase = (text) => text;

/** What a starting collector writes to standard error: its ports, once it listens. */
export function portsIn(log) {
  const port = /"port":(\d+)[^\n]*"msg":"listening"/.exec(log);
  const management = /"port":(\d+)[^\n]*"msg":"management listening"/.exec(log);
  return port && management && { port: Number(port[1]), management: Number(management[1]) };
}

/** The number of entries under the newest checkpoint, from `/metrics`. */
export function signedEntriesIn(metrics) {
  return Number(/^collector_checkpoint_entries (\d+)/m.exec(metrics)?.[1] ?? 0);
}

/** Members of JSON answers that depend on the machine, the time or the directory. */
export const VOLATILE =
  /^(took|took_ms|duration|duration_ms|seconds|port|pid|url|store|data_dir|free_bytes|bytes_written|checkpoints_checked)$/;
