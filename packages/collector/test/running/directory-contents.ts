/** The files that a command which changes nothing must leave unchanged. */
import fs from 'node:fs';
import path from 'node:path';

/** Every file below the directory, with its content. */
export function contents(directory: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const entry of fs.readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name);
    if (entry.isFile()) files.set(file, fs.readFileSync(file).toString('base64'));
  }
  return files;
}
