// How the two sides are called, and what they call things. Steps have the commands of the tree; a change that renames,
// merges or moves a command or an option adds a line here. These lines go when the base moves past the change.

/** The program, from the root of a checkout. */
export const PROGRAM = 'packages/collector/dist/main.js';

/** Commands of the tree, and what the base has for them. */
const AT_BASE = [
  [/^serve --check /, 'config check '],
  [/^import --check/, 'validate'],
  [/^demo --out/, 'demo --to-file'],
  [/^proof --tiles/, 'tiles export'],
  [/^encryption-keys copy --mirror/, 'encryption-keys mirror'],
  [/^retention policy set --dry-run/, 'retention policy check'],
  [/^(runs .*)--format csv/, '$1--csv'],
  [/^(runs .*)--outcome none:/, '$1--no-outcome-for '],
  [/^(encryption-keys copy .*)--expires/, '$1--lives'],
  [/^erase --list/, 'actions list'],
  [/^erase --certificate/, 'actions certificate'],
  [/^(erase .*)--late/, '$1--again'],
];

/** The two steps of an erasure. `countIn` says how many events the first one, from what it printed, lets the second erase. */
export const erasing = {
  base: {
    plan: (what, reason) => `erase ${what} --reason ${reason} --dry-run --json`,
    countIn: (printed) => JSON.parse(printed || '{}').events ?? 0,
    apply: (what, reason, count) => `erase ${what} --reason ${reason} --confirm ${count} --json`,
  },
  tree: {
    plan: (what, _, file) => `erase plan ${what} --by net --out ${file}`,
    countIn: (printed) => Number(/^(\d+) events? of \d+ runs? marked/m.exec(printed)?.[1] ?? 0),
    apply: (_, reason, __, file) => `erase apply ${file} --reason ${reason} --case NET-1 --by net --json`,
  },
};

/** @param side base or tree. @returns the words of a command line. */
export function wordsOf(side, command) {
  const rules = side === 'base' ? AT_BASE : [];
  return rules
    .reduce((line, [now, then]) => line.replace(now, then), command)
    .split(' ')
    .filter(Boolean);
}

/** What `serve` gets on each side so that a log has more than one segment. */
const segments = (size, more = '') => ({
  base: { options: `--segment-bytes ${size} ${more}`, environment: {} },
  tree: { options: more, environment: { COLLECTOR_LIMITS: JSON.stringify({ 'segment-bytes': size }) } },
});
export const smallSegments = segments('2MiB');
export const tinySegments = segments('256KiB', '--max-body-bytes 128KiB');

/** An answer of the tree, with the names that the base gives its parts. */
export const asNamedAtBase = (text) =>
  text.replaceAll('"name": "limits.', '"name": "').replaceAll('"source": "limits.', '"source": "--');

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
