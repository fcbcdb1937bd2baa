// Loaded by `--import` into every process and worker thread of the net: replaces the clock and the random source.
//
//   NET_CLOCK  a file with milliseconds since 1970, which the net alone changes: all `Date`s read it
//   NET_SEED   the seed of the random numbers of this process
//
// Each kind of draw has a sequence of its own for each size, the same in every thread of the process. So it does not
// matter which thread draws first, nor how often another size is drawn. Elapsed time and timers stay real.
import crypto from 'node:crypto';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const { createHash, createPrivateKey, createPublicKey } = crypto;
const seed = process.env.NET_SEED ?? '';
const clock = fs.openSync(process.env.NET_CLOCK ?? '', 'r');

const RealDate = Date;
const digits = Buffer.alloc(16);
const readSync = fs.readSync;
const now = () => Number(digits.latin1Slice(0, readSync(clock, digits, 0, digits.length, 0)));
RealDate.now = now;
globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, made) =>
    Reflect.construct(target, args.length > 0 ? args : [now()], made === globalThis.Date ? target : made),
  apply: () => new RealDate(now()).toString(),
});

const draws = new Map();
/** @returns this number of bytes, the next ones of the named sequence. */
function bytes(name, count) {
  const stream = `${name}\n${count}`;
  const draw = (draws.get(stream) ?? 0) + 1;
  draws.set(stream, draw);
  return createHash('shake256', { outputLength: Math.max(1, count) })
    .update(`${seed}\n${stream}\n${draw}`)
    .digest()
    .subarray(0, count);
}

function fill(target, offset = 0, size = undefined) {
  const view = ArrayBuffer.isView(target)
    ? new Uint8Array(target.buffer, target.byteOffset, target.byteLength)
    : new Uint8Array(target);
  const part = view.subarray(offset, size === undefined ? undefined : offset + size);
  part.set(bytes('fill', part.length));
  return target;
}

function uuid() {
  const id = bytes('uuid', 16);
  id[6] = (id[6] & 0x0f) | 0x40;
  id[8] = (id[8] & 0x3f) | 0x80;
  return id.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** The numbers are not quite uniform, which is good enough here. */
function integer(low, high) {
  const [from, to] = high === undefined ? [0, low] : [low, high];
  return from + (bytes('integer', 6).readUIntBE(0, 6) % (to - from));
}

/** PKCS #8 of an Ed25519 private key of 32 bytes, up to the key (RFC 8410). */
const PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const realPair = crypto.generateKeyPairSync;
function pair(type, options = {}) {
  if (type !== 'ed25519') return realPair(type, options);
  const der = Buffer.concat([PREFIX, bytes(type, 32)]);
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  const publicKey = createPublicKey(privateKey);
  return {
    publicKey: options.publicKeyEncoding ? publicKey.export(options.publicKeyEncoding) : publicKey,
    privateKey: options.privateKeyEncoding ? privateKey.export(options.privateKeyEncoding) : privateKey,
  };
}

Object.assign(crypto, {
  randomBytes: (count, callback) => {
    const drawn = bytes('bytes', count);
    return callback === undefined ? drawn : void setImmediate(callback, null, drawn);
  },
  randomFillSync: fill,
  randomUUID: uuid,
  randomInt: integer,
  generateKeyPairSync: pair,
});
// crypto.getRandomValues itself cannot be replaced: it calls this one.
Object.assign(Object.getPrototypeOf(crypto.webcrypto), {
  getRandomValues: (target) => fill(target),
  randomUUID: uuid,
});
syncBuiltinESMExports();
Math.random = () => bytes('fraction', 6).readUIntBE(0, 6) / 2 ** 48;
