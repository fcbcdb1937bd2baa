// Archives whose bytes depend on names and contents alone: names sorted, owner 0, one time, modes 0644 and 0755.
import { lstatSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import { constants, gzipSync } from 'node:zlib';

/** @typedef {{ name: string, content?: Buffer | string, target?: string, executable?: boolean }} Entry */

/** Files and links under a directory as entries. `prefix` precedes their names. */
export function entriesUnder(directory, prefix = '') {
  return readdirSync(directory).flatMap((name) => {
    const file = path.join(directory, name);
    const stat = lstatSync(file);
    if (stat.isDirectory()) return entriesUnder(file, `${prefix}${name}/`);
    return [entryOf(file, `${prefix}${name}`, stat)];
  });
}

/** @returns {Entry} */
export function entryOf(file, name, stat = lstatSync(file)) {
  if (stat.isSymbolicLink()) return { name, target: readlinkSync(file) };
  if (!stat.isFile()) throw new Error(`${name} is neither a file nor a link`);
  return { name, content: readFileSync(file), executable: (stat.mode & 0o100) !== 0 };
}

/** The order of the bytes, the same in each locale. */
const byName = (a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));

const BLOCK = 512;
const padding = (length) => Buffer.alloc((BLOCK - (length % BLOCK)) % BLOCK);

/** Name and prefix of a ustar header, or undefined for a name that does not fit. */
function ustarName(name) {
  if (Buffer.byteLength(name) <= 100) return { name, prefix: '' };
  for (let at = name.indexOf('/'); at !== -1; at = name.indexOf('/', at + 1)) {
    const [prefix, rest] = [name.slice(0, at), name.slice(at + 1)];
    if (Buffer.byteLength(prefix) <= 155 && Buffer.byteLength(rest) <= 100) return { name: rest, prefix };
  }
  return undefined;
}

function header({ name, prefix, mode, size, epoch, type, target = '' }) {
  const block = Buffer.alloc(BLOCK);
  const octal = (value, at, length) =>
    block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1');
  block.write(name, 0, 100);
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(epoch, 136, 12);
  block.fill(' ', 148, 156);
  block.write(type, 156);
  block.write(target, 157, 100);
  block.write('ustar\x0000root', 257, 'latin1');
  block.write('root', 297);
  block.write(prefix, 345, 155);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

/** A record of a pax header: its length counts itself. */
function paxRecord(key, value) {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest;
  while (length !== rest + String(length).length) length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}

function blocksOf({ name, content = '', target, executable = false }, epoch) {
  const body = Buffer.from(content);
  const type = target === undefined ? '0' : '2';
  const mode = target !== undefined ? 0o777 : executable ? 0o755 : 0o644;
  const fits = ustarName(name);
  const longTarget = target !== undefined && Buffer.byteLength(target) > 100;
  const pax = Buffer.from(
    (fits ? '' : paxRecord('path', name)) + (longTarget ? paxRecord('linkpath', target) : ''),
  );
  const extended = { name: 'pax', prefix: '', mode: 0o644, size: pax.length, epoch, type: 'x' };
  return [
    ...(pax.length > 0 ? [header(extended), pax, padding(pax.length)] : []),
    header({
      ...(fits ?? { name: name.slice(-30), prefix: '' }),
      mode,
      size: body.length,
      epoch,
      type,
      target: longTarget ? '' : target,
    }),
    body,
    padding(body.length),
  ];
}

/** A tar archive (ustar, and pax for names that do not fit). */
export function tar(entries, epoch) {
  const sorted = [...entries].sort(byName);
  const twice = sorted.find(({ name }, i) => name === sorted[i + 1]?.name);
  if (twice) throw new Error(`two entries are named ${twice.name}`);
  return Buffer.concat([...sorted.flatMap((entry) => blocksOf(entry, epoch)), Buffer.alloc(2 * BLOCK)]);
}

/** Gzip without name and time. Byte 9 names the system that packed: 255 is "unknown". */
export function gzip(bytes) {
  const packed = gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION });
  packed[9] = 255;
  return packed;
}
