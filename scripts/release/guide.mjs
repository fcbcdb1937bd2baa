// INSTALL.md: docs/guide/install.md for a reader who has the files of the release alone.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const GUIDE = path.join(import.meta.dirname, '../../docs/guide');

/** A document with the place of each other file after its name, for a reader from whom no link reaches that file. */
export function withoutLinks(text, placeOf) {
  const linked = /\[([^\]]+)\]\((?![a-z]+:|#)([^)]+)\)/g;
  return text.replace(linked, (_, name, target) => `${name} (${placeOf(target.replace(/#.*/, ''))})`);
}

export function build(out, { version }) {
  const text = readFileSync(path.join(GUIDE, 'install.md'), 'utf8');
  // The other pages are in the archive of the server, where no link reaches before it is unpacked.
  const placeOf = (target) => `\`${path.posix.join(`collector-${version}/docs/guide`, target)}\``;
  writeFileSync(path.join(out, 'INSTALL.md'), withoutLinks(text, placeOf));
}
