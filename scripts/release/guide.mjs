// INSTALL.md: docs/guide/install.md for a reader who has the files of the release alone.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const GUIDE = path.join(import.meta.dirname, '../../docs/guide');

export function build(out, { version }) {
  const text = readFileSync(path.join(GUIDE, 'install.md'), 'utf8');
  // The other pages are in the archive of the server, where no link reaches before it is unpacked.
  const pageOf = (target) => path.posix.join(`collector-${version}/docs/guide`, target.replace(/#.*/, ''));
  const linked = /\[([^\]]+)\]\((?![a-z]+:)([^)]+)\)/g;
  const alone = text.replace(linked, (_, name, target) => `${name} (\`${pageOf(target)}\`)`);
  writeFileSync(path.join(out, 'INSTALL.md'), alone);
}
