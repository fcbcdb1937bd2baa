/** The machine and the versions that a result was measured with. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { removeDirectory, temporaryDirectory } from './children.mjs';
import { fileSystemOf, flushTime } from './disk.mjs';
import { otelCollectorVersion } from './otel-collector.mjs';
import { postgresVersion } from './postgres.mjs';
import { redisVersion } from './redis.mjs';
import { wrkVersion } from './wrk.mjs';

const BENCH = path.dirname(import.meta.dirname);

export function machine(scratch) {
  const cpus = os.cpus();
  const directory = temporaryDirectory(scratch, 'flush');
  const flush = flushTime(directory);
  removeDirectory(directory);
  const release = fs.existsSync('/etc/os-release') ? fs.readFileSync('/etc/os-release', 'utf8') : '';
  return {
    cpu: cpus[0]?.model ?? 'unknown',
    cores: cpus.length,
    memoryBytes: os.totalmem(),
    system: /^PRETTY_NAME="?([^"\n]*)/m.exec(release)?.[1] ?? os.type(),
    kernel: os.release(),
    fileSystem: fileSystemOf(scratch),
    flush,
  };
}

function git(...args) {
  const { status, stdout } = spawnSync('git', args, { cwd: BENCH, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

function installed(name) {
  const manifest = path.join(BENCH, 'node_modules', name, 'package.json');
  return fs.existsSync(manifest) ? JSON.parse(fs.readFileSync(manifest, 'utf8')).version : undefined;
}

/** Undefined for what is not installed. */
export async function versions() {
  const commit = git('rev-parse', '--short=12', 'HEAD') ?? 'unknown';
  const isChanged = (git('status', '--porcelain', '--', '../packages') ?? '') !== '';
  return {
    collector: isChanged ? `${commit} with changes` : commit,
    node: process.versions.node,
    postgres: await postgresVersion().catch(() => undefined),
    redis: redisVersion(),
    fastify: installed('fastify'),
    pg: installed('pg'),
    otelCollector: otelCollectorVersion(),
    wrk: wrkVersion(),
  };
}
