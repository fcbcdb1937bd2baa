// Tar archives whose bytes depend only on the names, modes and contents of their entries.
import { createReadStream, createWriteStream, lstatSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';

const BLOCK = 512;
const FIELD = { name: 100, prefix: 155, link: 100 };

/** The pax record `length key=value\n`; its length counts its own digits. */
function record(key, value) {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + String(rest).length;
  length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}

/** A name as [prefix, name] of ustar, or undefined if it fits only in a pax record. */
function split(name) {
  if (Buffer.byteLength(name) <= FIELD.name) return ['', name];
  for (let at = name.indexOf('/'); at > 0; at = name.indexOf('/', at + 1)) {
    const parts = [name.slice(0, at), name.slice(at + 1)];
    if (Buffer.byteLength(parts[0]) > FIELD.prefix) return undefined;
    if (parts[1] !== '' && Buffer.byteLength(parts[1]) <= FIELD.name) return parts;
  }
  return undefined;
}

function header({ name, prefix = '', mode, size, type, link = '', epoch }) {
  const block = Buffer.alloc(BLOCK);
  const octal = (value, at, digits) =>
    block.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1');
  block.write(name, 0, FIELD.name);
  octal(mode, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(size, 124, 11);
  octal(epoch, 136, 11);
  block.write('        ', 148);
  block.write(type, 156);
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

function* headers(entry, size, epoch) {
  const directory = entry.name.endsWith('/');
  const parts = split(entry.name);
  const long = [];
  if (parts === undefined) long.push(record('path', entry.name));
  if (Buffer.byteLength(entry.link ?? '') > FIELD.link) long.push(record('linkpath', entry.link));
  if (long.length > 0) {
    const data = Buffer.from(long.join(''));
    yield header({ name: 'PaxHeader', mode: 0o644, size: data.length, type: 'x', epoch });
    yield data;
    yield padding(data.length);
  }
  const [prefix, name] = parts ?? ['', entry.name];
  const type = entry.link !== undefined ? '2' : directory ? '5' : '0';
  const mode = entry.link !== undefined ? 0o777 : (entry.mode ?? (directory ? 0o755 : 0o644));
  yield header({ name, prefix, mode, size, type, link: entry.link, epoch });
}

/** @param {Iterable<{name: string, mode?: number, data?: Uint8Array|string, path?: string, link?: string}>} entries */
async function* blocks(entries, epoch) {
  const sorted = [...entries].sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
  for (const [index, { name }] of sorted.entries())
    if (name === sorted[index + 1]?.name) throw new Error(`${name} is twice in the archive`);
  for (const entry of sorted) {
    const data = entry.data === undefined ? undefined : Buffer.from(entry.data);
    const size = data?.length ?? (entry.path === undefined ? 0 : statSync(entry.path).size);
    yield* headers(entry, size, epoch);
    if (size === 0) continue;
    if (data === undefined) yield* createReadStream(entry.path);
    else yield data;
    yield padding(size);
  }
  yield Buffer.alloc(2 * BLOCK);
}

/**
 * Writes a tar archive: entries sorted by the bytes of their names, owner 0, the time `epoch` (seconds).
 * A name that ends in a slash is a directory; `link` is the target of a symbolic link.
 */
export async function tar(file, entries, { epoch = 0 } = {}) {
  await pipeline(Readable.from(blocks(entries, epoch)), createWriteStream(file));
}

/** The same through gzip, whose header has neither a name nor a time. */
export async function tarGz(file, entries, { epoch = 0 } = {}) {
  await pipeline(Readable.from(blocks(entries, epoch)), createGzip({ level: 9 }), createWriteStream(file));
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
