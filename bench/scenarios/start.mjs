/** Start-up times only: of an empty ledger and of a filled one. */
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { createKey } from '../lib/collector.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { filledLedger } from '../lib/filled.mjs';
import { measureStarts, startFigures, startsTable } from '../lib/starts.mjs';

export async function start({ options, seeds, say, print }) {
  const directory = temporaryDirectory(options.scratch, 'empty');
  const { key } = await createKey(directory);
  const empty = await measureStarts({ directory, key, options, seeds, say });
  removeDirectory(directory);
  print(`\nA ledger that was empty\n\n${startsTable(empty)}`);

  const ledger = await filledLedger({ options, say });
  const filled = await measureStarts({ ...ledger, options, seeds, say });
  removeDirectory(ledger.directory);
  const figures = startFigures(filled);
  print(`\nThe filled ledger\n\n${startsTable(filled)}\n\n${figuresTable(figures)}`);
  return { filled: ledger.filled, empty, starts: filled, figures, failures: 0 };
}
