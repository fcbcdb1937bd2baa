/** Files that are whole or not there, and never take the place of another: keys and the notes that hand them on. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

/** On return the names in the directory are on stable storage. Windows cannot flush one, and need not. */
export function syncDirectory(directory: string): void {
  if (process.platform === 'win32') return;
  const fd = fs.openSync(directory, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Gives what root makes to the owner of `model`: a key that was rotated with sudo has to be read by a collector that
 * runs as somebody else. Where the system does not let root do that, it stays root's. By descriptor, because who owns
 * the directory could put a link in the place of the name.
 */
function handOver(fd: number, model: string | undefined): void {
  if (model === undefined || process.getuid?.() !== 0) return;
  const { uid, gid } = fs.statSync(model);
  try {
    if (uid !== 0) fs.fchownSync(fd, uid, gid);
  } catch {
    // A user namespace without that user, or a network file system that knows no root.
  }
}

/**
 * On return the directory exists, and the names of all that had to be made are on stable storage.
 * @param model whose owner becomes the owner of what is made.
 */
export function makeDirectory(directory: string, model?: string): void {
  const missing: string[] = [];
  for (let at = path.resolve(directory); !fs.existsSync(at); at = path.dirname(at)) missing.unshift(at);
  for (const each of missing) {
    // Another process may come first.
    fs.mkdirSync(each, { recursive: true, mode: 0o700 });
    if (process.platform === 'win32') continue;
    const fd = fs.openSync(each, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
    try {
      handOver(fd, model);
    } finally {
      fs.closeSync(fd);
    }
    syncDirectory(path.dirname(each));
  }
}

/**
 * Makes a file for its owner alone. On return it is durable. A link and not a rename, which would silently take the
 * place of a file of that name: of several processes that make the same file at once, one does.
 *
 * A crash may leave `<file>.<random>.tmp` behind.
 * @param model whose owner becomes the owner of the file.
 * @throws the system's error: EEXIST means that nothing was changed; after any other the file may be there.
 */
export function createDurably(file: string, content: string, model?: string): void {
  const draft = `${file}.${randomBytes(4).toString('hex')}.tmp`;
  const fd = fs.openSync(draft, 'wx', 0o600);
  try {
    try {
      fs.writeFileSync(fd, content);
      handOver(fd, model);
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
    fs.linkSync(draft, file);
  } finally {
    fs.rmSync(draft, { force: true });
  }
  syncDirectory(path.dirname(file));
}
