// Writes the commit of the sources to packages/collector/dist/commit.json, which the programs read at their start.
// Imports only Node itself, because scripts/setup.mjs runs it before anything is installed.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const FILE = path.join(root, 'packages', 'collector', 'dist', 'commit.json');

/** The variable SOURCE_COMMIT, otherwise the commit that git names, otherwise "unknown". */
export function sourceCommit() {
  const given = process.env['SOURCE_COMMIT'] ?? '';
  if (/^([0-9a-f]{7,64}(-modified)?|unknown)$/.test(given)) return given;
  if (given !== '') throw new Error('SOURCE_COMMIT: must be the hexadecimal id of a commit');
  // Without .git here, git would name the commit of a repository that happens to contain this directory.
  if (!existsSync(path.join(root, '.git'))) return 'unknown';
  const describe = ['describe', '--always', '--abbrev=40', '--exclude=*', '--dirty=-modified'];
  const { status, stdout } = spawnSync('git', describe, { cwd: root, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : 'unknown';
}

/** An unchanged file keeps its time. */
export function writeCommit() {
  const text = `${JSON.stringify({ commit: sourceCommit() })}\n`;
  if (existsSync(FILE) && readFileSync(FILE, 'utf8') === text) return;
  mkdirSync(path.dirname(FILE), { recursive: true });
  writeFileSync(FILE, text);
}
