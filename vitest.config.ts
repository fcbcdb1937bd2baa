import { randomInt } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, readdirSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type Reporter, type TestSpecification } from 'vitest/node';

const PACKAGES = [
  'protocol',
  'client',
  'instrument',
  'collector',
  'exports',
  'postgres',
  'report',
  'viewer',
].map((name) => `packages/${name}`);
const DIRECTORIES = [...PACKAGES.map((name) => `${name}/test`), 'tools/demo/test', 'test'];
const LONG = '.long.test.ts';

const startsProcess = new Map<string, boolean>();

/** Whether a file, or a helper of it that is no source of a package, starts a process or a browser. */
function isSlow(file: string): boolean {
  const known = startsProcess.get(file);
  if (known !== undefined) return known;
  startsProcess.set(file, false);
  const text = readFileSync(file, 'utf8');
  const helpers = [...text.matchAll(/from '(\.[^']+)\.js'/g)]
    .map(([, name = '']) => path.join(path.dirname(file), `${name}.ts`))
    .filter((helper) => helper.includes('test/'));
  const slow = /from '(node:child_process|playwright-core)'/.test(text) || helpers.some(isSlow);
  startsProcess.set(file, slow);
  return slow;
}

const files = DIRECTORIES.flatMap((directory) =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => path.posix.join(directory, name)),
);
const long = files.filter((file) => file.endsWith(LONG));
const quick = files.filter((file) => !file.endsWith(LONG) && !isSlow(file));
const processes = files.filter((file) => !long.includes(file) && !quick.includes(file));
const ingest = processes.filter((file) => file.startsWith('packages/collector/test/ingest/'));
const WITHOUT_SHORTCUT = pathToFileURL('packages/collector/test/running/without-shortcut.mjs').href;
const repeated = files.filter((file) => readFileSync(file, 'utf8').includes('/property-runs.js'));

/**
 * Where files of a run lie until its end. In memory if there is room and programs may run from it: no test but the long
 * ones is about the disk, and a flush costs more than all else that an event does.
 */
function scratch(): string {
  const memory = '/dev/shm';
  let parent = tmpdir();
  try {
    const { bavail, bsize } = statfsSync(memory);
    const [, options = 'noexec'] =
      /^\S+ \/dev\/shm \S+ (\S+)/m.exec(readFileSync('/proc/mounts', 'utf8')) ?? [];
    if (bavail * bsize >= 4 * 2 ** 30 && !options.split(',').includes('noexec')) parent = memory;
  } catch {
    // Not Linux.
  }
  const directory = mkdtempSync(path.join(parent, 'tests-'));
  // PostgreSQL and restricted collectors run as others.
  chmodSync(directory, 0o755);
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

// Vitest reads this file once for each project.
const env = { TMPDIR: (process.env['TESTS_DIRECTORY'] ??= scratch()) };
// test/property-runs.ts: one seed for all files of a run. Only a campaign draws its own: a change is never refused for
// the luck of another one.
if (process.env['TESTS_SEED'] === undefined) {
  const drawn = process.argv.includes('campaign') ? randomInt(2 ** 31) : 1;
  process.env['TESTS_SEED'] = process.env['SEED'] ?? String(drawn);
  process.stderr.write(`SEED=${process.env['TESTS_SEED']}\n`);
}

/**
 * Process tests first, since they wait most. The quick ones come in a row: their worker, with all that it has loaded, is
 * ended when the next file is of another project.
 */
class ProcessesFirst extends BaseSequencer {
  override async sort(specifications: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(specifications);
    const of = (isolate: boolean) => sorted.filter(({ project }) => project.config.isolate === isolate);
    return [...of(true), ...of(false)];
  }
}

/**
 * Lists tests that passed only at the second try (test/second-try.ts), which do not fail the run, and then those that
 * failed: the last lines of the output name them.
 */
const summary: Reporter = {
  onTestRunEnd(modules, unhandled) {
    const list = (title: string, state: 'passed' | 'failed') => {
      const all = modules.flatMap((module) =>
        [...module.children.allTests(state)]
          .filter((test) => state === 'failed' || test.diagnostic()?.flaky)
          .map((test) => {
            const why = test
              .result()
              .errors?.map(({ message }) => `    ${message.replaceAll('\n', '\n    ')}\n`);
            return `  ${module.relativeModuleId} > ${test.fullName}\n${why?.join('') ?? ''}`;
          }),
      );
      if (all.length > 0) process.stdout.write(`${title}:\n${all.join('')}`);
    };
    list('passed only at the second try', 'passed');
    list('failed', 'failed');
    const errors = [...modules.flatMap((module) => module.errors()), ...unhandled];
    for (const { message, cause } of errors)
      process.stdout.write(`failed outside of a test: ${message} ${cause?.message ?? ''}\n`);
  },
};
const setupFiles = ['test/second-try.ts'];

export default defineConfig({
  resolve: {
    // A test imports sources; what these import of another package must be the same module, not its compiled twin.
    alias: [
      { find: /^@clinical-events\/client$/, replacement: path.resolve('packages/client/src/index.ts') },
      { find: /^@clinical-events\/demo$/, replacement: path.resolve('tools/demo/src/demo.ts') },
      { find: /^@clinical-events\/postgres$/, replacement: path.resolve('packages/postgres/src/driver.ts') },
      {
        find: /^@clinical-events\/postgres\/(?!package\.json)(.+)$/,
        replacement: path.resolve('packages/postgres/src/commands/$1.ts'),
      },
      { find: /^@clinical-events\/report$/, replacement: path.resolve('packages/report/src/command.ts') },
      {
        find: /^@clinical-events\/report\/(html|report-page|wording)$/,
        replacement: path.resolve('packages/report/src/page/$1.ts'),
      },
      {
        find: /^@clinical-events\/report\/(?!package\.json)(.+)$/,
        replacement: path.resolve('packages/report/src/$1.ts'),
      },
      {
        find: /^@clinical-events\/(client|collector|exports)\/(?!package\.json)(.+)$/,
        replacement: path.resolve('packages/$1/src/$2.ts'),
      },
    ],
  },
  test: {
    // Process tests mostly wait for a process, a timer or a disk.
    maxWorkers: 4,
    reporters: ['default', summary],
    sequence: { sequencer: ProcessesFirst },
    // To end what hangs, not to judge how fast a machine is.
    testTimeout: 1_800_000,
    hookTimeout: 600_000,
    // By default a second, which a busy machine takes for less than what is waited for.
    expect: { poll: { timeout: 300_000 } },
    projects: [
      // Each file by itself would load the same modules again.
      { extends: true, test: { name: 'quick', include: quick, isolate: false, env } },
      { extends: true, test: { name: 'process', include: processes, env, setupFiles } },
      // What is said to HTTP must not hang on who says it, nor on whether OTLP is taken beside.
      {
        extends: true,
        test: {
          name: 'server',
          include: ingest,
          setupFiles,
          env: { ...env, NODE_OPTIONS: `--import=${WITHOUT_SHORTCUT}`, TESTS_OTLP: 'on' },
        },
      },
      { extends: true, test: { name: 'long', include: long } },
      {
        extends: true,
        test: { name: 'campaign', include: repeated, env: { PROPERTY_RUNS: 'all' }, testTimeout: 86_400_000 },
      },
    ],
  },
});
