/** Verifier keys and rotation notes on a command line: given directly or in files. */
import fs from 'node:fs';
import path from 'node:path';
import { KeyMalformed, splitNotes } from '@clinical-events/protocol/verify';
import { systemCode } from '../system-code.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { printable } from './terminal.js';

/** Matches a file extension; no key and no secret ends like this. */
const FILE_NAME = /\.[A-Za-z]{1,8}$/;

/**
 * A verifier key, a file with keys, or `@` and a file. The argument may be a secret key by mistake, so a
 * message repeats it only if it looks like a file name.
 * @param option for messages.
 * @param read throws KeyMalformed if the text is not a verifier key.
 * @throws CommandFailure
 */
export function keysFrom<Key>(option: string, given: string, read: (vkey: string) => Key): Key[] {
  const key = (text: string, where: string): Key => {
    try {
      return read(text.trim());
    } catch (error) {
      if (!(error instanceof KeyMalformed)) throw error;
      throw usage(`${option}: not a verifier key; ${where} ${error.message}`);
    }
  };
  const named = given.startsWith('@') ? given.slice(1) : undefined;
  if (named === undefined && !fs.existsSync(given)) {
    if (given.includes('+')) return [key(given, 'there is no such file, and')];
    const file = FILE_NAME.test(given) ? `file ${printable(given)}` : 'such file';
    throw new CommandFailure(`there is no ${file}, and this is not a verifier key`, EXIT.notFound);
  }
  const file = named ?? given;
  const lines = reading(file, () => fs.readFileSync(file, 'utf8')).split('\n');
  const keys = lines.map((line) => line.trim()).filter((line) => line !== '');
  if (keys.length === 0) throw usage(`${option}: ${file} is empty`);
  return keys.map((text) => key(text, `${file}:`));
}

/** The arguments of --key: keys of the log, and rotation notes that lead to its other keys. */
export interface Trusted<Key> {
  readonly keys: readonly Key[];
  readonly rotations: readonly string[];
}

/**
 * Splits the arguments of --key into keys (see {@link keysFrom}) and rotation notes: those in a file, or in
 * the `.note` files of a directory.
 */
export function trustedFrom<Key>(given: readonly string[], read: (vkey: string) => Key): Trusted<Key> {
  const notes = given.map(rotationsIn);
  return {
    keys: given.filter((_, i) => notes[i]?.length === 0).flatMap((each) => keysFrom('--key', each, read)),
    rotations: notes.flat(),
  };
}

/** A line with a signature of a note. */
const SIGNED = /^\u2014 /m;

/**
 * The notes in a file, or in the files of a directory in the order of their names; empty if `given` has none.
 */
function rotationsIn(given: string): string[] {
  const place = given.startsWith('@') ? given.slice(1) : given;
  const found = fs.statSync(place, { throwIfNoEntry: false });
  if (found === undefined) return [];
  if (!found.isDirectory()) {
    const text = fs.readFileSync(place, 'utf8');
    return SIGNED.test(text) ? splitNotes(text) : [];
  }
  const names = fs.readdirSync(place).filter((name) => name.endsWith('.note'));
  return names.sort().flatMap((name) => splitNotes(fs.readFileSync(path.join(place, name), 'utf8')));
}

/** @throws CommandFailure if the file does not exist or is a directory. */
export function reading<Content>(file: string, read: () => Content): Content {
  try {
    return read();
  } catch (error) {
    const code = systemCode(error);
    if (code === 'ENOENT') {
      throw new CommandFailure(`there is no file ${file}`, EXIT.notFound, { cause: error });
    }
    if (code === 'EISDIR') throw usage(`${file} is a directory`);
    throw error;
  }
}
