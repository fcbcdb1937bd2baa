// Damage to a data directory, done in the same way to a copy at both sides. Places depend on the names and sizes of
// files alone: where the formats of the sides differ, so do the places, and only kinds of findings are compared.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

/** A number below a limit that belongs to a text. */
const pick = (text, limit) => createHash('sha256').update(text).digest().readUIntBE(0, 6) % limit;

/** Files of a directory in order. @param pattern of their paths within it. */
function files(directory, pattern) {
  return fs
    .readdirSync(directory, { recursive: true })
    .filter((name) => pattern.test(name) && fs.statSync(path.join(directory, name)).isFile())
    .sort()
    .map((name) => path.join(directory, name));
}

const segments = (directory) => files(directory, /^ledger\/\d+\.segment$/);

function change(file, edit) {
  const bytes = fs.readFileSync(file);
  fs.writeFileSync(file, edit(bytes) ?? bytes);
}

function flip(file, what) {
  change(file, (bytes) => {
    bytes[pick(what, bytes.length)] ^= 0x10;
  });
}

const lines = (edit) => (bytes) => Buffer.from(edit(bytes.toString().split('\n')).join('\n'));

export const DAMAGES = {
  'flipped byte': (directory) => {
    const all = segments(directory);
    flip(all[pick('segment', all.length - 1)], 'flipped byte');
  },
  'missing segment': (directory) => fs.rmSync(segments(directory)[2]),
  'cut tail': (directory) => {
    const last = segments(directory).at(-1);
    // Zeros follow the last frame.
    change(last, (bytes) => bytes.subarray(0, bytes.findLastIndex((byte) => byte !== 0) - 300));
  },
  'missing last segment': (directory) => fs.rmSync(segments(directory).at(-1)),
  'copied segment': (directory) => fs.copyFileSync(segments(directory)[1], segments(directory)[3]),
  'older segment': (directory) => {
    const [first, second] = segments(directory);
    change(second, () => fs.readFileSync(first));
  },
  zeros: (directory) => change(segments(directory)[1], (bytes) => void bytes.fill(0, 65_536, 69_632)),
  'removed key': (directory) => {
    const keys = files(directory, /^encryption-keys\/buckets\//);
    fs.rmSync(keys[pick('key', keys.length)]);
  },
  'removed hold': (directory) => fs.rmSync(files(directory, /^lifecycle\/holds\//)[0]),
  'changed hold': (directory) => flip(files(directory, /^lifecycle\/holds\//)[0], 'changed hold'),
  'removed catalogue': (directory) => fs.rmSync(path.join(directory, 'catalogue'), { recursive: true }),
  'removed index': (directory) => fs.rmSync(path.join(directory, 'index'), { recursive: true }),
  'changed access log': (directory) =>
    change(
      path.join(directory, 'access.log'),
      lines((all) => all.with(2, all[2].replace('"uid":', '"uid":1'))),
    ),
  'cut access log': (directory) =>
    change(
      path.join(directory, 'access.log'),
      lines((all) => all.toSpliced(1, 1)),
    ),
  'torn access log': (directory) =>
    change(path.join(directory, 'access.log'), (bytes) => bytes.subarray(0, -20)),
  'flipped tree': (directory) => flip(files(directory, /^tree\/level-/)[0], 'flipped tree'),
  'changed checkpoint': (directory) =>
    change(
      path.join(directory, 'checkpoints/latest'),
      lines((all) => all.with(1, String(Number(all[1]) + 1))),
    ),
};
