/** The note in a data directory about the locations of its payload keys, written when encryption begins. */
import fs from 'node:fs';
import path from 'node:path';
import { exists, nodeFiles } from '../files.js';
import type { KeyPlaces, LeftOut } from '../privacy/key-directories.js';
import { KeysUnfit } from '../privacy/key-vault.js';

function noteOf(dataDirectory: string): string {
  return path.join(dataDirectory, 'encryption-keys.json');
}

/** Whether payloads of a data directory are encrypted, by its note. */
export function notesKeys(dataDirectory: string): boolean {
  return exists(noteOf(dataDirectory)) && begunKeys(dataDirectory) === undefined;
}

/**
 * The directories in which a start began to create the first keys and was interrupted: nothing is encrypted
 * yet.
 */
export function begunKeys(dataDirectory: string): readonly string[] | undefined {
  const { begun } = noteIn(dataDirectory);
  return Array.isArray(begun) ? begun.filter(isText) : undefined;
}

/** Notes durably that keys are being created in these directories. */
export async function noteBegunKeys(dataDirectory: string, directories: readonly string[]): Promise<void> {
  await nodeFiles.replace(noteOf(dataDirectory), Buffer.from(`${JSON.stringify({ begun: directories })}\n`));
}

/** The default key directory. */
export function defaultKeys(dataDirectory: string): string {
  return path.join(dataDirectory, 'encryption-keys');
}

type Note = Partial<Record<keyof KeyPlaces | 'begun', unknown>>;

/** The note; empty if there is none, or it cannot be read. */
function noteIn(dataDirectory: string): Note {
  const note = noteOf(dataDirectory);
  if (!exists(note)) return {};
  try {
    return Object(JSON.parse(fs.readFileSync(note, 'utf8'))) as Note;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return {};
  }
}

/**
 * The noted locations; `encryption-keys` in the data directory without a note.
 * @throws KeysUnfit if the note is invalid.
 */
export function readKeyPlaces(dataDirectory: string): KeyPlaces {
  const note = noteOf(dataDirectory);
  if (!notesKeys(dataDirectory)) return { directories: [defaultKeys(dataDirectory)], kek: '' };
  const { directories, kek, leftOut } = noteIn(dataDirectory);
  if (!Array.isArray(directories) || directories.length === 0 || !directories.every(isText) || !isText(kek)) {
    throw new KeysUnfit(
      `${note} does not name the key directories: remove it, and pass --encryption-keys at the next start`,
    );
  }
  return {
    directories: directories.map((each) => (isAddress(each) ? each : path.resolve(dataDirectory, each))),
    kek,
    leftOut: Array.isArray(leftOut) ? (leftOut as LeftOut[]) : [],
  };
}

/** Whether this is the address of a database of keys. */
function isAddress(directory: string): boolean {
  return directory.includes('://');
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/**
 * Notes the locations durably, including former directories. Directories within the data directory are noted
 * relative to it, so that it can be moved.
 */
export async function noteKeyPlaces(dataDirectory: string, { directories, kek }: KeyPlaces): Promise<void> {
  const before = notesKeys(dataDirectory) ? readKeyPlaces(dataDirectory) : undefined;
  const since = new Date().toISOString();
  const left = (before?.directories ?? []).map((directory) => ({ directory, since }));
  const leftOut = [...(before?.leftOut ?? []), ...left].filter(
    ({ directory }) => !directories.includes(directory) && !isAddress(directory),
  );
  await writeNote(dataDirectory, { directories, kek, leftOut });
}

/** Removes a former directory, whose keys were erased, from the note. */
export async function forgetLeftOut(dataDirectory: string, directory: string): Promise<void> {
  const { leftOut = [], ...places } = readKeyPlaces(dataDirectory);
  await writeNote(dataDirectory, {
    ...places,
    leftOut: leftOut.filter((each) => each.directory !== directory),
  });
}

async function writeNote(
  dataDirectory: string,
  { directories, kek, leftOut = [] }: KeyPlaces,
): Promise<void> {
  const named = directories.map((directory) => {
    if (isAddress(directory)) return directory;
    const within = path.relative(dataDirectory, directory);
    return within.startsWith('..') || path.isAbsolute(within) ? directory : within;
  });
  const note = { directories: named, kek, ...(leftOut.length > 0 && { leftOut }) };
  const text = `${JSON.stringify(note, undefined, 2)}\n`;
  if (exists(noteOf(dataDirectory)) && fs.readFileSync(noteOf(dataDirectory), 'utf8') === text) return;
  await nodeFiles.replace(noteOf(dataDirectory), Buffer.from(text));
}
