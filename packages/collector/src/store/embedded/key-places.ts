/** Where the keys of a data directory's payloads are, for whoever reads it: noted in it when they lie elsewhere. */
import path from 'node:path';
import fs from 'node:fs';
import { exists, nodeFiles } from '../../files.js';
import type { KeyPlaces } from '../../privacy/key-directory.js';

function noteOf(dataDirectory: string): string {
  return path.join(dataDirectory, 'encryption-keys.json');
}

/** As noted; `encryption-keys` in the data directory where nothing is. */
export function readKeyPlaces(dataDirectory: string): KeyPlaces {
  const note = noteOf(dataDirectory);
  if (!exists(note)) return { directories: [path.join(dataDirectory, 'encryption-keys')], kek: '' };
  const { directories, kek } = JSON.parse(fs.readFileSync(note, 'utf8')) as KeyPlaces;
  return { directories, kek };
}

/** On return the note, if one is needed, is on stable storage. */
export async function noteKeyPlaces(dataDirectory: string, { directories, kek }: KeyPlaces): Promise<void> {
  const noted = readKeyPlaces(dataDirectory);
  if (noted.kek === kek && noted.directories.join() === directories.join()) return;
  await nodeFiles.replace(
    noteOf(dataDirectory),
    Buffer.from(`${JSON.stringify({ directories, kek }, undefined, 2)}\n`),
  );
}
