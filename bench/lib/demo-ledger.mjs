/** Ledgers of made-up runs, with all that real ones have: repeats, conflicts, what comes late, runs that call others. */
import fs from 'node:fs';
import path from 'node:path';
import { run, temporaryDirectory } from './children.mjs';
import { FILLER } from './filled.mjs';
import { requireRoom } from './disk.mjs';
import { whole } from './numbers.mjs';
import { timedCommand } from './timed-command.mjs';

/** What `collector demo` makes of a run, on average. */
const EVENTS_TO_A_RUN = 4.845;
/** A line of the file, and a frame with its place in the index. */
const LINE_BYTES = 780;
const STORED_BYTES = 960;
const ROOM_LEFT = 3 * 2 ** 30;
/** Stands in the envelopes. */
const KEY_ID = 'demofilled23';

/**
 * A ledger of about so many made-up events of all five scenarios, without a catalogue.
 * @param dataDir where it is taken from, or made and left; without one, in a temporary directory.
 * @returns its directory.
 */
export async function demoLedger({ dataDir, scratch, encrypted = false }, events, say) {
  const directory = dataDir ?? temporaryDirectory(scratch, 'demo');
  if (fs.existsSync(path.join(directory, 'ledger'))) {
    say('taking the ledger that is there');
    return directory;
  }
  requireRoom(scratch, events * (LINE_BYTES + STORED_BYTES) + ROOM_LEFT);
  fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
  const lines = path.join(directory, 'demo.ndjson');
  const runs = Math.ceil(events / EVENTS_TO_A_RUN);
  say(`making ${whole(runs)} runs`);
  await timedCommand('demo', ['--runs', `${runs}`, '--days', '90', '--seed', '4', '--out', lines]);
  say('storing them');
  // Straight into the ledger: over HTTP, ten million would take a quarter of an hour.
  await run('the filler', process.execPath, [
    ...[FILLER, directory, lines, KEY_ID, 'demo'],
    ...(encrypted ? ['--encrypted'] : []),
  ]);
  fs.rmSync(lines);
  return directory;
}
