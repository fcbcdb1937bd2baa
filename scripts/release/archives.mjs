// Tar archives whose bytes depend only on the names, modes and contents of their entries.
import { createReadStream, createWriteStream, lstatSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';

const BLOCK = 512;
const FIELD = { name: 100, prefix: 155, link: 100 };

/** A name as the prefix and name of ustar. */
function split(name) {
  if (Buffer.byteLength(name) <= FIELD.name) return ['', name];
  for (let at = name.indexOf('/'); at > 0; at = name.indexOf('/', at + 1)) {
    const [prefix, rest] = [name.slice(0, at), name.slice(at + 1)];
    const isShort = Buffer.byteLength(prefix) <= FIELD.prefix && Buffer.byteLength(rest) <= FIELD.name;
    if (isShort && rest !== '') return [prefix, rest];
  }
  throw new Error(`the name ${name} is too long for an archive`);
}

function header({ name: whole, mode, link = '' }, size, epoch) {
  const block = Buffer.alloc(BLOCK);
  const octal = (value, at, digits) =>
    block.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1');
  const [prefix, name] = split(whole);
  const isDirectory = whole.endsWith('/');
  if (Buffer.byteLength(link) > FIELD.link) throw new Error(`the target of ${whole} is too long`);
  block.write(name, 0, FIELD.name);
  octal(link === '' ? (mode ?? (isDirectory ? 0o755 : 0o644)) : 0o777, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(size, 124, 11);
  octal(epoch, 136, 11);
  block.write('        ', 148);
  block.write(link === '' ? (isDirectory ? '5' : '0') : '2', 156);
  block.write(link, 157, FIELD.link);
  block.write('ustar\x0000', 257);
  octal(0, 329, 7);
  octal(0, 337, 7);
  block.write(prefix, 345, FIELD.prefix);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}

const padding = (size) => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);

/** @param {Iterable<{name: string, mode?: number, data?: string, path?: string, link?: string}>} entries */
async function* blocks(entries, epoch) {
  const sorted = [...entries].sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
  for (const [index, { name }] of sorted.entries())
    if (name === sorted[index + 1]?.name) throw new Error(`${name} is twice in the archive`);
  for (const entry of sorted) {
    const data = Buffer.from(entry.data ?? '');
    const size = entry.path === undefined ? data.length : statSync(entry.path).size;
    yield header(entry, size, epoch);
    if (size === 0) continue;
    if (entry.path === undefined) yield data;
    else yield* createReadStream(entry.path);
    yield padding(size);
  }
  yield Buffer.alloc(2 * BLOCK);
}

/**
 * Writes a tar archive, through gzip if the name of the file ends in `gz`: entries sorted by the bytes of their names,
 * owner 0, the time `epoch` (seconds). A name that ends in a slash is a directory; `link` is the target of a symbolic link.
 */
export async function archive(file, entries, epoch) {
  // The header of gzip has neither a name nor a time.
  const gzip = file.endsWith('gz') ? [createGzip({ level: 9 })] : [];
  await pipeline(Readable.from(blocks(entries, epoch)), ...gzip, createWriteStream(file));
}

/** The entries of a directory, under `prefix`. Modes are 0755 and 0644: only whether a file is executable counts. */
export function entriesOf(directory, prefix) {
  const entries = [{ name: `${prefix}/` }];
  for (const child of readdirSync(directory)) {
    const [from, name] = [path.join(directory, child), `${prefix}/${child}`];
    const stat = lstatSync(from);
    if (stat.isDirectory()) entries.push(...entriesOf(from, name));
    else if (stat.isSymbolicLink()) entries.push({ name, link: readlinkSync(from) });
    else entries.push({ name, mode: stat.mode & 0o100 ? 0o755 : 0o644, path: from });
  }
  return entries;
}
