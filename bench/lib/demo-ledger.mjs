/** Logs of made-up runs, with repeats, conflicts, late events and nested runs. */
import fs from 'node:fs';
import path from 'node:path';
import { run, temporaryDirectory } from './children.mjs';
import { FILLER } from './filled.mjs';
import { requireRoom } from './disk.mjs';
import { whole } from './numbers.mjs';
import { timedCommand } from './timed-command.mjs';

/** Mean events of a run of `collector demo`. */
const EVENTS_TO_A_RUN = 4.845;
/** Bytes of a line of the file, and of a frame with its index entry. */
const LINE_BYTES = 780;
const STORED_BYTES = 960;
const ROOM_LEFT = 3 * 2 ** 30;
/** The key id in the envelopes. */
const KEY_ID = 'demofilled23';

/**
 * Makes a log of about this number of events of all five scenarios, without a catalogue.
 * @param dataDir an existing log, or the directory of the new one; without it a temporary directory.
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
  // Written into the log directly: ten million events over HTTP would take a quarter of an hour.
  await run('the filler', process.execPath, [
    ...[FILLER, directory, lines, KEY_ID, 'demo'],
    ...(encrypted ? ['--encrypted'] : []),
  ]);
  fs.rmSync(lines);
  return directory;
}
