/** Where the keys of a data directory's payloads are, for whoever reads it: noted in it when encryption begins. */
import fs from 'node:fs';
import path from 'node:path';
import { exists, nodeFiles } from '../files.js';
import type { KeyPlaces, LeftOut } from '../privacy/key-directories.js';
import { KeysUnfit } from '../privacy/key-vault.js';

function noteOf(dataDirectory: string): string {
  return path.join(dataDirectory, 'encryption-keys.json');
}

/** Whether payloads of a data directory are encrypted, as far as its own note says. */
export function notesKeys(dataDirectory: string): boolean {
  return exists(noteOf(dataDirectory)) && begunKeys(dataDirectory) === undefined;
}

/** Where a start began to make the first keys, which none has finished: nothing is encrypted by them. */
export function begunKeys(dataDirectory: string): readonly string[] | undefined {
  const { begun } = noteIn(dataDirectory);
  return Array.isArray(begun) ? begun.filter(isText) : undefined;
}

/** On return the next start and `doctor` know that keys are being made there. */
export async function noteBegunKeys(dataDirectory: string, directories: readonly string[]): Promise<void> {
  await nodeFiles.replace(noteOf(dataDirectory), Buffer.from(`${JSON.stringify({ begun: directories })}\n`));
}

/** Where keys are when no other directory is named. */
export function defaultKeys(dataDirectory: string): string {
  return path.join(dataDirectory, 'encryption-keys');
}

type Note = Partial<Record<keyof KeyPlaces | 'begun', unknown>>;

/** Empty where there is none, or nothing that can be read. */
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
 * As noted; `encryption-keys` in the data directory where nothing is.
 * @throws KeysUnfit for a note that says nothing of the kind.
 */
export function readKeyPlaces(dataDirectory: string): KeyPlaces {
  const note = noteOf(dataDirectory);
  if (!notesKeys(dataDirectory)) return { directories: [defaultKeys(dataDirectory)], kek: '' };
  const { directories, kek, leftOut } = noteIn(dataDirectory);
  if (!Array.isArray(directories) || directories.length === 0 || !directories.every(isText) || !isText(kek)) {
    throw new KeysUnfit(
      `${note} does not say where the keys of payloads are: remove it, and say so by --encryption-keys at the next start`,
    );
  }
  return {
    directories: directories.map((each) => (isAddress(each) ? each : path.resolve(dataDirectory, each))),
    kek,
    leftOut: Array.isArray(leftOut) ? (leftOut as LeftOut[]) : [],
  };
}

/** Of a database that has the keys of a log in another one. */
function isAddress(directory: string): boolean {
  return directory.includes('://');
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/**
 * On return the note is on stable storage, also of the directories that are none of them any more. What lies in the data
 * directory is found again when that is moved.
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

/** On return a directory that was left out, and has no keys any more, is not on record. */
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
  const text = `${JSON.stringify({ directories: named, kek, ...(leftOut.length > 0 && { leftOut }) }, undefined, 2)}\n`;
  if (exists(noteOf(dataDirectory)) && fs.readFileSync(noteOf(dataDirectory), 'utf8') === text) return;
  await nodeFiles.replace(noteOf(dataDirectory), Buffer.from(text));
}
