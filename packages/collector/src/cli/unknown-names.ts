/** What an empty answer would not show: names in a filter that no record has, mostly a slip, and the other clock. */
import { didYouMean } from '@clinical-events/protocol';
import type { Catalogue } from '../catalogue/catalogue.js';
import { openCatalogue } from './catalogue-access.js';
import { printable } from './printable.js';

/** For an answer that is empty by the time of receipt. */
export const BY_SENDERS =
  "by the senders' clocks there are some in that time, as after an import or a demo: --clock sender goes by these";

export interface NameFilter {
  readonly organisation?: string | undefined;
  /** MODEL_ID or MODEL_ID@VERSION. */
  readonly model?: string | undefined;
}

/** Of each kind so many are kept to guess from, and none that is longer. */
const MOST_NAMES = 1000;
const LONGEST_NAME = 200;

/**
 * Goes through the catalogue: for when nothing was found.
 * @returns a warning for each name that no record has, with the nearest one that one has.
 */
export function unknownNames(catalogue: Catalogue, { organisation, model }: NameFilter): string[] {
  const warnings: string[] = [];
  if (organisation !== undefined) {
    warnings.push(...unknown('no event names the organisation', organisation, catalogue.organisations()));
  }
  if (model !== undefined) {
    const models = catalogue.models().flatMap(({ model: id, version }) => [id, `${id}@${version ?? ''}`]);
    warnings.push(...unknown('no run is of the model', model, models));
  }
  return warnings;
}

/** The same for a command that has no catalogue open: nothing is said where none can be had. */
export async function unknownNamesIn(
  dataDir: string,
  filter: NameFilter,
  signal: AbortSignal,
): Promise<string[]> {
  if (filter.organisation === undefined && filter.model === undefined) return [];
  const access = await openCatalogue({ dataDir, quiet: true, signal }).catch(() => undefined);
  try {
    return access === undefined ? [] : unknownNames(access.catalogue, filter);
  } finally {
    await access?.close();
  }
}

function unknown(said: string, name: string, all: readonly string[]): string[] {
  if (all.includes(name)) return [];
  // A sender's characters must not move the cursor.
  const others = all.filter((other) => other.length <= LONGEST_NAME && printable(other) === other);
  return [`${said} "${printable(name)}"${didYouMean(name, others.slice(0, MOST_NAMES))}`];
}
