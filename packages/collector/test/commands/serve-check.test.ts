import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { configWarnings } from '../../src/commands/serve/check.js';
import { readConfig } from '../../src/config.js';
import { findSettings } from '../../src/commands/serve/resolved-config.js';
import { run, start, temporaryDirectory } from '../running/collector-process.js';
import { Authority, writePair } from '../running/certificates.js';
import { contents } from '../running/directory-contents.js';
import { canMount, runReadOnly } from '../running/restricted-process.js';
import { noteKeyPlaces } from '../../src/store/key-places.js';
import { fillSigned, loggedEvent, ORIGIN } from './signed-directory.js';

function scratch(): string {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

function fileIn(directory: string, content: unknown): string {
  const name = path.join(directory, 'collector.json');
  fs.writeFileSync(name, JSON.stringify(content), { mode: 0o600 });
  return name;
}

function tokenIn(directory: string): string {
  const file = path.join(directory, 'operator-token');
  fs.writeFileSync(file, 'x'.repeat(40), { mode: 0o600 });
  return file;
}

interface Answer {
  readonly usable: boolean;
  readonly faults: readonly { source: string; message: string }[];
  readonly warnings: readonly { source: string; message: string }[];
  readonly settings: readonly Record<string, unknown>[];
}

describe('[R-841] collector serve --check', () => {
  test('prints every value and its source', async () => {
    const directory = scratch();
    const limits = { 'max-connections': 9 };
    const config = fileIn(directory, { port: 9000, 'log-level': 'debug', limits });
    const args = ['serve', '--check', '--config', config, '--data-dir', directory];
    const { code, stdout, stderr } = await run(args, { env: { COLLECTOR_PROFILE: 'full' } });
    expect(stderr).toBe('');
    expect(code).toBe(0);
    const lines = stdout.split('\n').map((line) => line.replace(/ {2,}/g, ' | '));
    expect(lines).toContain('host | 127.0.0.1 | default');
    expect(lines).toContain(`port | 9000 | ${config}, "port"`);
    expect(lines).toContain(`data-dir | ${directory} | command line`);
    expect(lines).toContain('profile | full | COLLECTOR_PROFILE | yes');
    expect(lines).toContain(`log-level | debug | ${config}, "log-level" | yes`);
    expect(lines).toContain('max-body-bytes | 1MiB | default');
    expect(lines).toContain(`limits.max-connections | 9 | ${config}, "limits.max-connections" | yes`);
    expect(lines).toContain('limits.queue-bytes | 64MiB | default');
  });

  test('reports every fault with its source and ends with exit code 2', async () => {
    const directory = scratch();
    const config = fileIn(directory, { prot: 1, 'checkpoint-sink': 'ftp:x' });
    const { code, stdout, stderr } = await run(['serve', '--check', '--config', config, '--port', 'x'], {
      env: { COLLECTOR_PROFIL: '1' },
    });
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr.trimEnd().split('\n')).toEqual(
      ['COLLECTOR_PROFIL: ', `${config}, "prot": `, '--port: ', `${config}, "checkpoint-sink": `].map(
        (source) => expect.stringContaining(`collector: ${source}`) as string,
      ),
    );
  });

  test('prints faults, warnings and the valid settings as JSON, and no password', async () => {
    const sink = 'https://user:hunter2@witness.example#a';
    const { code, stdout, stderr } = await run(
      ['serve', '--check', '--json', '--port', '70000', '--checkpoint-sink', sink],
      { env: { COLLECTOR_HOST: '0.0.0.0' } },
    );
    expect(code).toBe(2);
    const answer = JSON.parse(stdout) as Answer;
    expect(answer.usable).toBe(false);
    expect(answer.faults.map(({ source }) => source)).toEqual(['--port', '--checkpoint-sink']);
    expect(answer.warnings.map(({ source }) => source)).toContain('COLLECTOR_HOST');
    const names = answer.settings.map(({ name }) => name);
    expect(names).toContain('host');
    expect(names).not.toContain('checkpoint-sink');
    expect(stdout + stderr).not.toContain('hunter2');
  });

  test('makes nothing and changes nothing', async () => {
    const directory = scratch();
    const config = fileIn(directory, { 'data-dir': path.join(directory, 'data') });
    const before = contents(directory);
    const { code, stdout } = await run(['serve', '--check', '--config', config]);
    expect(code).toBe(0);
    expect(stdout).toContain('a start would create it');
    expect(contents(directory)).toEqual(before);
    expect(fs.readdirSync(directory)).toEqual(['collector.json']);
  });

  test('[R-1324] reports a directory in which keys of payloads could not be written', async () => {
    const directory = scratch();
    const [keys, mirror, dataDir] = ['keys', 'mirror', 'data'].map((name) => path.join(directory, name)) as [
      string,
      string,
      string,
    ];
    for (const each of [keys, mirror, dataDir]) fs.mkdirSync(each);
    const check = ['serve', '--check', '--json', '--data-dir', dataDir];
    const faultsOf = async (...more: readonly string[]) => {
      const { stdout, code } = await run([...check, ...more]);
      const { faults } = JSON.parse(stdout) as Answer;
      expect(code).toBe(faults.length === 0 ? 0 : 2);
      return faults;
    };
    expect(await faultsOf('--encryption-keys', `${keys},${mirror}`)).toEqual([]);
    expect(await faultsOf('--encryption-keys', `${keys},${directory}/gone,${mirror}`)).toEqual([]);
    expect(await faultsOf('--encryption-keys', `${keys},${directory}/gone`)).toMatchObject([
      { source: '--encryption-keys', message: expect.stringContaining(`${directory}/gone`) as string },
    ]);
    expect(await faultsOf('--encryption-keys', `${directory}/gone`, '--encryption', 'off')).toEqual([]);
    if (!canMount) return;
    const { code, stdout } = await runReadOnly(keys, [...check, '--encryption-keys', keys]);
    expect([code, (JSON.parse(stdout) as Answer).faults[0]?.message]).toEqual([
      2,
      expect.stringContaining(`${keys} is on a read-only file system`),
    ]);
    // By the note, without the option.
    await noteKeyPlaces(dataDir, { directories: [keys], kek: '' });
    const noted = await runReadOnly(keys, check);
    expect([noted.code, (JSON.parse(noted.stdout) as Answer).faults.length]).toEqual([2, 1]);
  });

  test('checks the certificate as a start does', async () => {
    const directory = scratch();
    const authority = new Authority();
    const check = ['serve', '--check', '--json', '--host', '0.0.0.0', '--data-dir', directory];
    const pair = writePair(directory, authority.issue({ days: 5 }));
    fs.chmodSync(path.join(directory, 'tls.key'), 0o644);
    const sound = await run([...check, ...pair]);
    const { usable, warnings } = JSON.parse(sound.stdout) as Answer;
    expect(usable).toBe(true);
    expect(warnings.map(({ source }) => source).filter((source) => /^--(tls|host)/.test(source))).toEqual([
      ...['--tls-key', '--tls-cert'],
    ]);
    writePair(directory, { ...authority.issue(), key: authority.issue().key });
    const { code, stdout } = await run([...check, ...pair]);
    expect(code).toBe(2);
    const [fault] = (JSON.parse(stdout) as Answer).faults;
    expect(fault?.source).toBe('--tls-key');
  });

  test('names every fault at once, each by the option that has to be changed, as a start does', async () => {
    const directory = scratch();
    const none = path.join(directory, 'none');
    const config = fileIn(directory, {
      ...{ 'tls-client-ca': directory, 'log-level': 5 },
      limits: { 'queue-events': 'x' },
    });
    const given = [
      ...['--config', config, '--data-dir', path.join(directory, 'data'), '--tls-cert', none],
      ...['--trusted-proxies', '10.0.0.0/99'],
      ...['--management-host', '0.0.0.0', '--checkpoint-sink', 'ftp:x'],
    ];
    for (const [more, tls] of [
      [[], [['--tls-cert', '--tls-key']]],
      [
        ['--tls-key', `${none}.key`, '--host', '192.0.2.1'],
        [
          ['--tls-cert', 'ENOENT'],
          ['--tls-key', 'ENOENT'],
          [`${config}, "tls-client-ca"`, 'is not a file'],
        ],
      ],
    ] as const) {
      const { stdout } = await run(['serve', '--check', '--json', ...given, ...more]);
      const told = (JSON.parse(stdout) as Answer).faults;
      const expected = [
        [`${config}, "limits.queue-events"`, 'is not a whole number'],
        [`${config}, "log-level"`, 'must be a string'],
        ['--management-host', '--management-token-file'],
        ['--checkpoint-sink', 'ftp:x'],
        ['--trusted-proxies', '10.0.0.0/99'],
        ...tls,
        ...(more.length === 0 ? [] : [['--host', 'EADDRNOTAVAIL']]),
      ] as const;
      for (const [source, message] of expected)
        expect(told).toContainEqual({ source, message: expect.stringContaining(message) as string });
      expect(told).toHaveLength(expected.length);
      const started = await run(['serve', ...given, ...more]);
      const ofStart = told.filter(({ message }) => !message.includes('EADDRNOTAVAIL'));
      expect([started.code, started.stderr.trimEnd().split('\n')]).toEqual([
        2,
        ofStart.map(({ source, message }) => `collector: ${source}: ${message}`),
      ]);
    }
    expect(fs.readdirSync(directory)).toEqual(['collector.json']);
  });

  test('does not report as missing what a file that cannot be read may hold', async () => {
    const config = path.join(scratch(), 'none');
    const { stderr } = await run(['serve', '--check', '--config', config, '--management-host', '0.0.0.0']);
    expect(stderr).toMatch(/^collector: --config: [^\n]*ENOENT[^\n]*\n$/);
  });

  test('warns of a range of proxies that is too large, as a start does', async () => {
    const directory = scratch();
    const args = ['--data-dir', path.join(directory, 'data'), '--trusted-proxies', '10.0.0.1,0.0.0.0/0'];
    const { code, stdout } = await run(['serve', '--check', ...args]);
    expect([code, stdout]).toEqual([0, expect.stringContaining('warning: --trusted-proxies: ')]);
    const collector = await start(path.join(directory, 'data'), args.slice(2));
    expect(await collector.stop()).toBe(0);
    expect(collector.output.stderr).toMatch(/"level":"warn",.*--trusted-proxies /);
  });

  test('checks the operator token as a start does, and says where it was named', async () => {
    const directory = scratch();
    const token = path.join(directory, 'token');
    fs.writeFileSync(token, 'short');
    const config = fileIn(directory, { 'management-token-file': token });
    const { code, stderr } = await run(['serve', '--check', '--config', config, '--data-dir', directory]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^collector: .*collector.json, "management-token-file": .*token/);
  });

  test('finds what a start would refuse for the log, its keys and the addresses', async () => {
    const directory = scratch();
    const dataDir = path.join(directory, 'data');
    await fillSigned(dataDir, [[loggedEvent('one')]]);
    const check = (...args: readonly string[]) =>
      run(['serve', '--check', '--data-dir', dataDir, '--port', '0', '--management-port', '0', ...args]);
    expect((await check()).code).toBe(0);
    expect((await check('--log-origin', ORIGIN)).code).toBe(0);
    const elsewhere = path.join(directory, 'no keys');
    fs.mkdirSync(elsewhere);
    for (const [args, fault] of [
      [['--log-origin', 'other.example/log'], /--log-origin: /],
      [['--signing-keys', elsewhere], /--signing-keys: .*no keys/],
      [['--signing-keys', `command:${path.join(directory, 'none')}`], /--signing-keys: .*none/],
      [['--host', '192.0.2.1'], /--host: .*EADDRNOTAVAIL/],
      [
        ['--management-host', 'no-such-host.invalid', '--management-token-file', tokenIn(directory)],
        /--management-host: /,
      ],
    ] as const) {
      const { code, stderr } = await check(...args);
      expect([code, stderr]).toEqual([2, expect.stringMatching(fault)]);
    }
    expect((await check('--host', '192.0.2.1', '--no-listen')).code).toBe(0);
    const before = contents(directory);
    await check();
    expect(contents(directory)).toEqual(before);
  });

  test('is refused for a trial, and --json is refused for a start', async () => {
    for (const options of [['--check', '--trial'], ['--json']])
      expect((await run(['serve', ...options])).code).toBe(2);
  });

  test('finds a data directory that is a file', async () => {
    const file = fileIn(scratch(), {});
    const { code, stderr } = await run(['serve', '--check', '--data-dir', file]);
    expect(code).toBe(2);
    expect(stderr).toContain(`--data-dir: ${file}`);
  });
});

/** The sources of the warnings. */
async function warned(given: Record<string, string>): Promise<string[]> {
  const reading = readConfig(given, {});
  const { found } = await findSettings(reading);
  return configWarnings(reading, found).map(({ source }) => source);
}

describe('[R-841] a warning is given of', () => {
  const quiet = (): Record<string, string> => {
    const directory = scratch();
    fs.mkdirSync(path.join(directory, 'data'), { mode: 0o700 });
    return { 'data-dir': path.join(directory, 'data'), 'checkpoint-sink': 'dir:/dev/shm' };
  };
  const MANAGED = { 'management-host': '0.0.0.0', 'management-token-file': '/etc/token' };
  const TLS = { 'tls-cert': '/etc/tls.crt', 'tls-key': '/etc/tls.key' };

  test.each<[Record<string, string>, string[]]>([
    [{}, []],
    ...['127.0.0.1', '127.1.2.3', '::1', 'localhost'].map((host): [Record<string, string>, string[]] => [
      { host },
      [],
    ]),
    ...['0.0.0.0', '::', '10.0.0.1', 'collector.example', '128.0.0.1', 'localhost.example'].map(
      (host): [Record<string, string>, string[]] => [{ host }, ['--host']],
    ),
    [MANAGED, ['--management-host']],
    [{ ...MANAGED, management: 'off' }, []],
    [{ ...MANAGED, ...TLS }, []],
    [{ 'log-level': 'silent' }, ['--log-level']],
  ])('%j: %j', async (given, sources) => {
    // Scratch directories may be on the file system of the sink.
    const told = (await warned({ ...quiet(), ...given })).filter((source) => source !== '--checkpoint-sink');
    expect(told).toEqual(sources);
  });

  test('a data directory and a file of settings that other users may change, and a sink that is lost with the data', async () => {
    const given = quiet();
    const dataDir = given['data-dir'] ?? '';
    expect(await warned({ 'data-dir': dataDir })).toEqual(['--checkpoint-sink']);
    for (const sink of [`dir:${dataDir}/sink`, `file:${dataDir}/../sink/deep`])
      expect(await warned({ ...given, 'checkpoint-sink': sink })).toEqual(['--checkpoint-sink']);
    const config = fileIn(scratch(), {});
    fs.chmodSync(config, 0o622);
    expect(await warned({ ...given, config })).toContain(config);
    fs.chmodSync(dataDir, 0o755);
    expect(await warned(given)).toContain('--data-dir');
  });
});
