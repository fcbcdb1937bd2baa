/** What an operator types to `collector import`, read strictly before anything is done. */
import fs from 'node:fs';
import { didYouMean, EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { DEFAULT_ORGANISATION } from '../access/issuing.js';
import type { Config } from '../config.js';
import { codingOf, STANDARD_INPUT } from '../importing/input.js';
import type { PreparationSettings } from '../importing/preparation.js';
import { Zone } from '../importing/zone.js';
import { organisationFrom } from './events.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { usage } from './keys.js';

export interface ImportOptions {
  readonly organisation?: string;
  readonly kind?: string;
  readonly profile?: string;
  readonly rejects?: string;
  readonly fix?: string;
  readonly dryRun?: true;
  readonly json?: true;
}

/** The rules by which the files are to be read. */
export function settingsFrom(
  inputs: readonly string[],
  { organisation, kind, profile, fix }: ImportOptions,
  config: Config,
): PreparationSettings {
  return {
    inputs,
    stated: {
      kind: kind === undefined ? undefined : kindFrom(kind),
      organisation: organisation === undefined ? undefined : organisationFrom(organisation),
      // From the environment or the file it is the collector's own, and a line may say otherwise, as a key may.
      profile: profile === undefined ? undefined : config.profile,
    },
    organisation: DEFAULT_ORGANISATION,
    profile: config.profile,
    maxBodyBytes: config.maxBodyBytes,
    maxDepth: config.maxNestingDepth,
    zone: fix === undefined ? undefined : zoneFrom(fix),
  };
}

function kindFrom(text: string): EventKind {
  const kind = EVENT_KINDS.find((each) => each === text);
  if (kind !== undefined) return kind;
  throw usage(
    `--kind: ${JSON.stringify(text)} is none of ${EVENT_KINDS.join(', ')}${didYouMean(text, EVENT_KINDS)}`,
  );
}

function zoneFrom(text: string): string {
  const zone = /^timestamps=(.+)$/.exec(text)?.[1];
  if (zone === undefined) throw usage(`--fix: ${JSON.stringify(text)} is not timestamps=ZONE`);
  try {
    return new Zone(zone).name;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw usage(
      `--fix: ${JSON.stringify(zone)} is neither an offset such as +01:00 nor a zone such as Europe/Berlin`,
    );
  }
}

/**
 * How much there is to read; those that are compressed are read twice (importing/input.ts).
 * @throws CommandFailure when a file is not there or is none, before anything is done.
 */
export function bytesOf(files: readonly string[]): number | undefined {
  if (files.filter((file) => file === STANDARD_INPUT).length > 1) {
    throw usage('- stands for standard input, which can be read only once');
  }
  let bytes: number | undefined = 0;
  for (const file of files) {
    if (file === STANDARD_INPUT) {
      bytes = undefined;
      continue;
    }
    const found = fs.statSync(file, { throwIfNoEntry: false });
    if (found === undefined) throw new CommandFailure(`there is no file ${file}`, EXIT.notFound);
    if (found.isDirectory()) throw usage(`${file} is a directory`);
    const coded = codingOf(file) !== undefined;
    if (coded && !found.isFile()) {
      throw usage(`${file} is compressed and has to be read twice: give a file, or decompress it into -`);
    }
    fs.accessSync(file, fs.constants.R_OK);
    if (!found.isFile()) bytes = undefined;
    else if (bytes !== undefined) bytes += found.size * (coded ? 2 : 1);
  }
  return bytes;
}

/** Where the lines go that are not stored, when nobody has said. */
export function defaultRejects([first = '']: readonly string[]): string {
  return `${first === STANDARD_INPUT ? 'stdin' : first}.rejects.ndjson`;
}
