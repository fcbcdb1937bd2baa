/** What stands in the quarantine of a spool, file by file and line by line. */
import path from 'node:path';
import { SpoolKeyWrong } from './contract.js';
import { errorCode } from './error-code.js';
import type { SpoolFiles } from './files.js';
import { linesOf, type Line } from './lines.js';
import { readQuarantineLine, type QuarantinedEvent } from './quarantine.js';

/** A file that `requeue` has moved away and not come to the end of. */
export const TAKEN = '.requeue';

export interface QuarantinedLine extends Line {
  /** `sealed`: not opened by the key. Undefined for a line that is none of the quarantine's. */
  readonly event: QuarantinedEvent | 'sealed' | undefined;
}

/** The paths of the files, in the order of their names. */
export async function quarantineFiles(files: SpoolFiles, root: string): Promise<string[]> {
  const directory = path.join(root, 'quarantine');
  let names: string[];
  try {
    names = await files.list(directory);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
  return names
    .filter((name) => name.endsWith('.ndjson') || name.endsWith(TAKEN))
    .map((name) => path.join(directory, name));
}

/** What they take together; what cannot be looked at counts as nothing. @throws the system's error. */
export async function quarantineBytes(files: SpoolFiles, root: string): Promise<number> {
  let bytes = 0;
  for (const file of await quarantineFiles(files, root)) {
    const fd = await files.open(file, 'read').catch(() => undefined);
    if (fd === undefined) continue;
    try {
      bytes += await files.size(fd);
    } finally {
      await files.close(fd);
    }
  }
  return bytes;
}

/** Empty lines are left out. Gives nothing when the file is not there any more. */
export async function* quarantinedLines(
  files: SpoolFiles,
  file: string,
  key: Uint8Array | undefined,
): AsyncGenerator<QuarantinedLine, void, undefined> {
  let fd: number;
  try {
    fd = await files.open(file, 'read');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    throw error;
  }
  try {
    for await (const line of linesOf(files, fd)) {
      if (line.text?.trim() !== '') yield { ...line, event: eventIn(line, key) };
    }
  } finally {
    await files.close(fd);
  }
}

function eventIn({ text }: Line, key: Uint8Array | undefined): QuarantinedLine['event'] {
  try {
    return text === undefined ? undefined : readQuarantineLine(text, key);
  } catch (error) {
    if (error instanceof SpoolKeyWrong) return 'sealed';
    throw error;
  }
}
