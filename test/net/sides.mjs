// How the two sides are called, and what they call things. Steps have the commands of the tree; a change that renames,
// merges or moves a command or an option adds a line here. These lines go when the base moves past the change.

/** The program, from the root of a checkout. */
export const PROGRAM = 'packages/collector/dist/main.js';

/** Commands of the tree, and what the base has for them: `[/^new words /, 'old words ']`. */
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

/** What `serve` gets so that a log has more than one segment. */
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

/** How many entries the newest checkpoint covers, from what `/metrics` says. */
export function signedEntriesIn(metrics) {
  return Number(/^collector_checkpoint_entries (\d+)/m.exec(metrics)?.[1] ?? 0);
}

/** Members of JSON answers that hang on the machine, the moment or the place. */
export const VOLATILE =
  /^(took|took_ms|duration|duration_ms|seconds|port|pid|url|store|data_dir|free_bytes|bytes_written|checkpoints_checked)$/;
