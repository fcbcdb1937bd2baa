import fs from 'node:fs';
import path from 'node:path';
import { test } from 'vitest';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillSigned, loggedEvent } from './signed-directory.js';
import { AT, changed, sealed, renumbered, tamper, rebuild, rebuildTree, frameAt, sign } from './tampering.js';
import { verifyLog } from '../../src/cli/verification.js';
import { nodeFiles } from '../../src/store/embedded/files.js';
import { flipBit, segmentPaths } from '../store/embedded/filled-directory.js';

const EVENTS = Array.from({ length: 300 }, (_, i) => loggedEvent(`event ${i}`));
const BATCHES = Array.from({ length: 30 }, (_, i) => EVENTS.slice(i * 10, i * 10 + 10));

test('explore', async () => {
  const master = temporaryDirectory();
  await fillSigned(master, BATCHES, { segmentBytes: 1 << 20 });
  const old = temporaryDirectory();
  const attacks: Record<string, (d: string) => void | Promise<void>> = {
    nothing: () => undefined,
    'payload flip': (d) => {
      const { file, offset, frame } = frameAt(d, 17);
      flipBit(file, offset + frame.length - 5);
    },
    'payload sealed': (d) =>
      tamper(d, (f) => {
        changed(f[16]!, f[16]!.length - 5);
        return f;
      }),
    ...Object.fromEntries(
      Object.entries(AT).flatMap(([name, at]) => [
        [
          `flip ${name}`,
          (d: string) => {
            const { file, offset } = frameAt(d, 17);
            flipBit(file, offset + at);
          },
        ],
        [
          `sealed ${name}`,
          (d: string) =>
            tamper(d, (f) => {
              changed(f[16]!, at);
              return f;
            }),
        ],
      ]),
    ),
    'envelope sealed': (d) =>
      tamper(d, (f) => {
        changed(f[16]!, 64 + 12);
        return f;
      }),
    'envelope org len': (d) =>
      tamper(d, (f) => {
        f[16]![64 + 3]! += 1;
        sealed(f[16]!);
        return f;
      }),
    'last seq sealed': (d) =>
      tamper(d, (f) => {
        changed(f[299]!, AT.sequence);
        return f;
      }),
    'last flip': (d) => {
      const { file, offset, frame } = frameAt(d, 300);
      flipBit(file, offset + frame.length - 5);
    },
    'two flips adjacent': (d) => {
      for (const s of [17, 18]) {
        const { file, offset, frame } = frameAt(d, s);
        flipBit(file, offset + frame.length - 5);
      }
    },
    hole: (d) => {
      const { file, offset } = frameAt(d, 17);
      const b = fs.readFileSync(file);
      b.fill(0xff, offset, offset + 700);
      fs.writeFileSync(file, b);
    },
    'salt+1': (d) =>
      tamper(d, (f) => {
        const x = f[16]!;
        x.writeUInt16LE(17, AT.saltLength);
        x.writeUInt32LE(x.readUInt32LE(12) - 1, 12);
        sealed(x);
        return f;
      }),
    'removed plain': (d) => tamper(d, (f) => f.toSpliced(16, 1)),
    'removed renumbered': (d) => tamper(d, (f) => renumbered(f.toSpliced(16, 1))),
    'removed rebuilt tree': (d) => {
      tamper(d, (f) => renumbered(f.toSpliced(16, 1)));
      rebuildTree(d);
    },
    'tail cut': (d) => tamper(d, (f) => f.slice(0, 290)),
    'swapped plain': (d) => tamper(d, (f) => f.with(16, f[17]!).with(17, f[16]!)),
    'swapped renumbered': (d) => tamper(d, (f) => renumbered(f.with(16, f[17]!).with(17, f[16]!))),
    'inserted plain': (d) =>
      tamper(d, (f) => {
        const c = Buffer.from(f[16]!);
        c[64 + 13]! ^= 1;
        sealed(c);
        return f.toSpliced(16, 0, c);
      }),
    'inserted renumbered': (d) =>
      tamper(d, (f) => {
        const c = Buffer.from(f[16]!);
        c[64 + 13]! ^= 1;
        return renumbered(f.toSpliced(16, 0, c));
      }),
    'rebuilt tree': (d) => {
      tamper(d, (f) => {
        changed(f[16]!, 64 + 13);
        return f;
      });
      rebuildTree(d);
    },
    'tile 0': (d) => flipBit(path.join(d, 'tree/level-0'), 16 * 32),
    'tile 1': (d) => flipBit(path.join(d, 'tree/level-1'), 3),
    'tree gone': (d) => fs.rmSync(path.join(d, 'tree'), { recursive: true }),
    'latest gone': (d) => fs.rmSync(path.join(d, 'checkpoints/latest')),
    'origin gone': (d) => fs.rmSync(path.join(d, 'checkpoints/origin.vkey')),
    'latest cut': (d) => fs.truncateSync(path.join(d, 'checkpoints/latest'), 100),
    'segment header': (d) => flipBit(segmentPaths(d)[0]!, 17),
    torn: (d) => {
      const { file, offset, frame } = frameAt(d, 300);
      const b = fs.readFileSync(file);
      b.fill('torn', offset + frame.length, offset + frame.length + 100);
      fs.writeFileSync(file, b);
    },
    'ledger gone': (d) => fs.rmSync(path.join(d, 'ledger'), { recursive: true }),
  };
  void old;
  void rebuild;
  void sign;
  for (const [name, attack] of Object.entries(attacks)) {
    const d = temporaryDirectory();
    fs.cpSync(master, d, { recursive: true });
    await attack(d);
    const v = verifyLog({ dataDir: d, files: nodeFiles, against: [], keys: [], onProgress: () => undefined });
    console.log(
      `## ${name}: ${v.findings.intact} events ${v.events} unsigned ${v.unsigned}\n` +
        v.findings.listed
          .map((f) => `   ${f.kind} ${f.sequence} ${f.file}@${f.offset}: ${f.message}`)
          .join('\n'),
    );
    fs.rmSync(d, { recursive: true });
  }
  fs.rmSync(master, { recursive: true });
});
