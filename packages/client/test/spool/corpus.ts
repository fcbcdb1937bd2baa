/** The spools of test/vectors/spool, laid out as a client finds them. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { temporaryDirectory } from '../running/hurried-client.js';
import { HOST } from '../../src/spool/files.js';

export interface Case {
  readonly what: string;
  readonly parts: Readonly<Record<string, { owner: 'none' | 'here' | 'elsewhere' | 'empty'; lock: string }>>;
  readonly key?: string;
  readonly touched?: string;
  readonly make?: Readonly<Record<string, 'link' | 'directory' | 'pipe'>>;
  /** The case holds for every length of the file in this range. */
  readonly truncate?: { readonly file: string; readonly from: number; readonly to: number };
  readonly expect: {
    readonly events: readonly object[];
    readonly cut: number;
    readonly missing: number;
    readonly damaged: readonly { readonly file: string; readonly bytes: number }[];
    readonly left: readonly string[];
    readonly watched?: true;
    readonly refused?: 'key' | 'format';
  };
}

export const VECTORS = path.resolve(import.meta.dirname, '../../../../test/vectors/spool');
export const NAMES = fs
  .readdirSync(VECTORS)
  .filter((name) => fs.statSync(path.join(VECTORS, name)).isDirectory());
const OWNERS = { none: undefined, here: `${HOST}\n1\n`, elsewhere: 'another boot\n1\n', empty: '' };

/** The spool of the case in a directory of its own, with files that no repository can hold. */
export async function laidOut(name: string, said: Case): Promise<string> {
  const root = path.join(temporaryDirectory(), 'spool');
  fs.cpSync(path.join(VECTORS, name, 'spool'), root, { recursive: true });
  fs.chmodSync(root, 0o700);
  for (const [part, { owner, lock }] of Object.entries(said.parts)) {
    const file = path.join(root, part, 'owner');
    const text = OWNERS[owner];
    if (text !== undefined) fs.writeFileSync(file, text);
    if (said.touched !== undefined) fs.utimesSync(file, new Date(said.touched), new Date(said.touched));
    if (lock === 'none') continue;
    const server = net.createServer();
    await new Promise<void>((resolve) => server.listen(path.join(root, part, 'lock'), resolve));
    // Node removes the socket when it stops listening; that of a dead process keeps its name.
    const left = path.join(root, part, 'left');
    fs.linkSync(path.join(root, part, 'lock'), left);
    const ended = new Promise((resolve) => server.on('close', resolve));
    if (lock === 'free') {
      server.close();
      await ended;
      fs.renameSync(left, path.join(root, part, 'lock'));
    } else {
      fs.rmSync(left);
      onTestFinished(() => void server.close());
    }
  }
  for (const [file, kind] of Object.entries(said.make ?? {})) {
    const at = path.join(root, file);
    if (kind === 'link') fs.symlinkSync('/etc/hostname', at);
    else if (kind === 'directory') fs.mkdirSync(at);
    else execFileSync('mkfifo', [at]);
  }
  return root;
}

export function caseOf(name: string): Case {
  return JSON.parse(fs.readFileSync(path.join(VECTORS, name, 'case.json'), 'utf8')) as Case;
}
