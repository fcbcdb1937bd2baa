/** `collector tiles`: the tree of the log for tools that know nothing of a collector. */
import path from 'node:path';
import { Command } from 'commander';
import type { Config } from '../config.js';
import { counted } from '../counted.js';
import { systemCode } from '../system-code.js';
import { addConfigOptions, configOf } from './config-options.js';
import { usage } from './key-arguments.js';
import { noteReading } from './noted-reading.js';
import { printable } from './printable.js';
import { ProgressBar } from './progress-bar.js';
import { assertReadable, LOG_DIRECTORIES } from './regular-files.js';
import { NotATileDirectory, TileDirectory } from './tile-directory.js';
import { exportTiles, type Exported } from './tile-export.js';

const EXAMPLES = `
Examples:
  $ collector tiles export /srv/log
  $ collector tiles export /srv/log --json | jq .tree_size

Writes what the newest checkpoint covers as a static directory in the layout of C2SP tlog-tiles: any web server can
serve it, and independent tools can read and audit it. Run again it goes on from there, and the checkpoint is always
the last to change: whoever reads meanwhile finds everything that the checkpoint they got needs.

The entries are the leaves of the tree: when each event was received, and hashes. They hold nothing of what was sent or
by whom, but tell how many events came and when; and whoever knows an event's id and who sent it can find its leaf.

That it ran is noted in access.log in the data directory, as a reading.

Exit codes: 6 there is no ledger, 2 the directory holds something else or the tiles of another log, 1 nothing is signed
yet, 3 what is stored is damaged, or the tiles are of a log that went on differently; then the checkpoint is not changed.`;

/** Fewer are exported before anybody wonders. */
const BAR_FROM_ENTRIES = 200_000;

export function command(): Command {
  const exporting = addConfigOptions(
    new Command('export').description('Write the tree, its entries and a checkpoint as a static directory.'),
    'tiles',
  )
    .argument('<directory>', 'where to; made when it is not there')
    .option('--json', 'print what was done as one JSON object')
    .addHelpText('after', EXAMPLES)
    .action((directory: string, options: { readonly json?: true }, self: Command) =>
      exportTo(path.resolve(directory), options, configOf(self, 'tiles')),
    );
  const tiles = new Command('tiles').description('Export the tree of the log as static files.');
  tiles.addCommand(exporting);
  return tiles;
}

async function exportTo(
  directory: string,
  options: { readonly json?: true },
  { dataDir }: Config,
): Promise<void> {
  assertReadable(dataDir, LOG_DIRECTORIES);
  const givenOut = noteReading(dataDir, { command: 'tiles export', filter: { directory } });
  const wanted = options.json !== true && process.stderr.isTTY;
  const bar = new ProgressBar({ wanted, unit: 'entries', per: 1, from: BAR_FROM_ENTRIES });
  let done: Exported;
  try {
    done = await exportTiles(
      dataDir,
      () => openTarget(directory),
      (entries, of) => {
        givenOut.events = entries;
        bar.show(entries, of);
      },
    );
  } finally {
    bar.clear();
  }
  const { checkpoint, before, written } = done;
  const { origin, size } = checkpoint;
  givenOut.events = size;
  givenOut.complete = true;
  if (options.json) {
    const told = { directory, origin, tree_size: size, tree_size_before: before, files_written: written };
    process.stdout.write(`${JSON.stringify(told, undefined, 2)}\n`);
    return;
  }
  const since = before === 0 ? '' : `, of which ${before} were there`;
  process.stdout.write(
    `${directory} holds the tiles of ${counted(size, 'entry', 'entries')} of ${printable(origin)}${since}. ` +
      `${counted(written, 'file')} written.\n`,
  );
}

function openTarget(directory: string): TileDirectory {
  try {
    return new TileDirectory(directory);
  } catch (error) {
    if (error instanceof NotATileDirectory)
      throw usage(`${error.message}; give an empty directory, or a new one`);
    const code = systemCode(error);
    if (code === 'ENOTDIR' || code === 'EEXIST') throw usage(`${directory} is not a directory`);
    throw error;
  }
}
