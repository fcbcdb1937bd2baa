// What differs between the two sides in how they are called. A step that renames, merges or removes a command changes one
// line here: `{ base: …, tree: … }`; a side that has none gets undefined, and the net leaves the comparison out.
// The base column is for the base commit; it goes when the base moves past the change.

/** @typedef {'base' | 'tree'} Name */

/** The program, from the root of a checkout. */
export const PROGRAM = 'packages/collector/dist/main.js';

/** Commands by what they are for: a text for both sides, or one for each. */
const COMMANDS = {
  serve: 'serve',
  checkConfiguration: { base: 'config check', tree: 'serve --check' },
  checkEvents: { base: 'validate', tree: 'import --check' },
  createKey: 'keys create',
  listKeys: 'keys list',
  rotateKey: 'keys rotate',
  revokeKey: 'keys revoke',
  events: 'events',
  runs: 'runs',
  runsAsCsv: { base: 'runs --csv', tree: 'runs --format csv' },
  records: 'records',
  report: 'report',
  import: 'import',
  writeDemo: { base: 'demo --to-file', tree: 'demo --out' },
  showSigningKeys: 'signing-key show',
  rotateSigningKey: 'signing-key rotate',
  doctor: 'doctor',
  verify: 'verify',
  proof: 'proof',
  checkProof: 'check-proof',
  exportTiles: { base: 'tiles export', tree: 'proof --tiles' },
  backup: 'backup',
  restore: 'restore',
  mirror: 'mirror',
  encryptionKeysStatus: 'encryption-keys status',
  mirrorEncryptionKeys: { base: 'encryption-keys mirror', tree: 'encryption-keys copy --mirror' },
  copyEncryptionKeys: { base: 'encryption-keys copy --lives', tree: 'encryption-keys copy --expires' },
  rotateEncryptionKeys: 'encryption-keys rotate',
  erase: 'erase',
  checkPolicy: { base: 'retention policy check', tree: 'retention policy set --dry-run' },
  setPolicy: 'retention policy set',
  showPolicy: 'retention policy show',
  retire: 'retention run',
  addHold: 'hold add',
  listHolds: 'hold list',
  releaseHold: 'hold release',
  listActions: 'actions list',
  certificate: 'actions certificate',
  exportActions: 'actions export',
  migrateStore: 'store migrate',
  checkStore: 'store check',
};

/** What `serve` gets on each side so that a log has more than one segment. */
const segments = (size, more = []) => ({
  base: { options: ['--segment-bytes', size, ...more], environment: {} },
  tree: { options: more, environment: { COLLECTOR_LIMITS: JSON.stringify({ 'segment-bytes': size }) } },
});
export const smallSegments = segments('2MiB');
export const tinySegments = segments('256KiB', ['--max-body-bytes', '128KiB']);

/** Options that the base side has under other names. */
const RENAMED = [[/--outcome none:(\w+)/, '--no-outcome-for $1']];

/** @returns options of the tree as the side has them. */
export function optionsOf(side, text) {
  return side === 'base' ? RENAMED.reduce((all, [now, was]) => all.replace(now, was), text) : text;
}

/** @returns the words of a command; undefined where one of the sides has none. */
export function commandOf(side, purpose) {
  const command = COMMANDS[purpose];
  if (typeof command === 'string') return command.split(' ');
  if (command === undefined) throw new Error(`sides.mjs has no command for ${purpose}`);
  return command.base === undefined || command.tree === undefined ? undefined : command[side].split(' ');
}

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
