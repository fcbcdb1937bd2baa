import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type Config,
  ConfigError,
  loadConfig,
  optionsOf,
  readConfig,
  showsStacks,
} from '../../src/config.js';

function file(content: unknown): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'collector-config-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const name = path.join(directory, 'collector.json');
  writeFileSync(name, typeof content === 'string' ? content : JSON.stringify(content));
  return name;
}

function faultsOf(commandLine: Record<string, string>, env: NodeJS.ProcessEnv = {}): string[] {
  try {
    loadConfig(commandLine, env);
  } catch (error) {
    if (error instanceof ConfigError)
      return error.faults.map(({ source, message }) => `${source}: ${message}`);
    throw error;
  }
  return [];
}

const DEFAULTS: Config = {
  host: '127.0.0.1',
  port: 8080,
  dataDir: path.resolve('data'),
  store: '',
  otlpPort: '',
  otlpShown: 'default',
  otlpOutcomes: '',
  profile: 'minimum',
  maxBodyBytes: 1_048_576,
  encryption: 'auto',
  encryptionKeys: '',
  kek: '',
  signingKeys: path.resolve('data/signing-keys'),
  readGroup: '',
  logOrigin: '',
  checkpointIntervalMs: 1000,
  checkpointSink: '',
  tlsCert: '',
  tlsKey: '',
  tlsClientCa: '',
  tlsClientAuth: 'required',
  trustedProxies: '',
  management: 'on',
  managementHost: '127.0.0.1',
  managementPort: 8081,
  managementTokenFile: '',
  logLevel: 'info',
  queueBytes: 67_108_864,
  queueEvents: 8192,
  maxConnections: 4096,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 65_000,
  shutdownTimeoutMs: 10_000,
  maxNestingDepth: 64,
  segmentBytes: 67_108_864,
  backupMaxAgeMs: 86_400_000,
};

describe('a value', () => {
  test('[R-114] is the default when none is given', () => {
    expect(loadConfig({}, { PATH: '/bin' })).toEqual(DEFAULTS);
  });

  test('is taken from the command line first, then the environment, then the file', () => {
    const limits = { 'queue-events': 1, 'max-connections': 1 };
    const config = file({ port: 1, host: 'file', limits, profile: 'full' });
    const env = {
      ...{ COLLECTOR_PORT: '2', COLLECTOR_HOST: 'environment' },
      COLLECTOR_LIMITS: '{"max-connections": 2}',
    };
    expect(loadConfig({ port: '3', config }, env)).toEqual({
      ...DEFAULTS,
      port: 3,
      host: 'environment',
      queueEvents: 1,
      maxConnections: 2,
      profile: 'full',
    });
  });

  test('may be written with units, in the file as text or number', () => {
    const config = file({
      'max-body-bytes': '64KiB',
      limits: { 'segment-bytes': 1_000_000, 'keep-alive-timeout-ms': '1m' },
    });
    const COLLECTOR_LIMITS = '{"shutdown-timeout-ms": "500ms"}';
    expect(loadConfig({ config }, { COLLECTOR_LIMITS })).toMatchObject({
      maxBodyBytes: 65_536,
      segmentBytes: 1_000_000,
      keepAliveTimeoutMs: 60_000,
      shutdownTimeoutMs: 500,
    });
  });

  test('[R-905] for a place is a path, or command: with one, and both are made absolute', () => {
    const keysOf = (text: string) => loadConfig({ 'signing-keys': text }, {}).signingKeys;
    expect(keysOf('keys')).toBe(path.resolve('keys'));
    expect(keysOf('command:bin/sign')).toBe(`command:${path.resolve('bin/sign')}`);
    expect(keysOf('./command:keys')).toBe(path.resolve('command:keys'));
    expect(faultsOf({ 'signing-keys': 'command:' })).toEqual([
      '--signing-keys: "command:" is not a usable place',
    ]);
  });
});

test('[R-841] each value has its source, also beside faulty ones', () => {
  const config = file({ port: 1, host: 'file', limits: { 'queue-events': 1 } });
  const env = { COLLECTOR_PROFILE: 'ful', COLLECTOR_LIMITS: '{"max-connections": 2}' };
  const { settings, faults, config: whole } = readConfig({ port: '3', config }, env);
  const found = Object.fromEntries(settings.map(({ name, from, source }) => [name, [from, source]]));
  expect(found).toMatchObject({
    port: ['command line', '--port'],
    host: ['file', `${config}, "host"`],
    'limits.queue-events': ['file', `${config}, "limits.queue-events"`],
    'limits.max-connections': ['environment', 'COLLECTOR_LIMITS, "limits.max-connections"'],
    'limits.queue-bytes': ['default', 'limits.queue-bytes'],
    'max-body-bytes': ['default', '--max-body-bytes'],
  });
  expect(settings.find(({ name }) => name === 'limits.queue-bytes')).toMatchObject({
    ...{ value: 67_108_864, shown: '64MiB', reloadable: false },
  });
  expect(faults).toEqual([expect.objectContaining({ source: 'COLLECTOR_PROFILE' })]);
  expect(whole).toBeUndefined();
});

test('a list is not repeated in a fault, because it may hold a password', () => {
  expect(faultsOf({ 'checkpoint-sink': 'https://u:secret@witness.example\n' })).toEqual([
    '--checkpoint-sink: the value is not a usable list',
  ]);
});

test('the file may be named by the environment, and the command line has priority', () => {
  const env = { COLLECTOR_CONFIG: file({ port: 1 }) };
  expect(loadConfig({}, env).port).toBe(1);
  expect(loadConfig({ config: file({ port: 2 }) }, env).port).toBe(2);
});

test('[R-801] every fault is reported at once, each with its source', () => {
  const config = file({ prot: 1, host: true, 'log-level': 'inf' });
  const env = {
    ...{ COLLECTOR_PROFIL: '1', COLLECTOR_DATA_DIR: '' },
    COLLECTOR_LIMITS: '{"max-connections": 0, "headers-timeout-ms": "soon", "queue-event": 1}',
  };
  expect(faultsOf({ port: '70000', 'max-body-bytes': '1MB', config }, env)).toEqual([
    'COLLECTOR_PROFIL: no such setting; did you mean "COLLECTOR_PROFILE"?',
    'COLLECTOR_LIMITS, "limits.queue-event": no such setting; did you mean "queue-events"?',
    `${config}, "prot": no such setting; did you mean "port"?`,
    `${config}, "host": must be a string`,
    '--port: 70000 is out of range: 0 to 65535',
    'COLLECTOR_DATA_DIR: "" is not a usable path',
    '--max-body-bytes: "1MB" is not a size such as 64KiB',
    `${config}, "log-level": "inf" is not one of trace, debug, info, warn, error, fatal, silent; did you mean "info"?`,
    'COLLECTOR_LIMITS, "limits.max-connections": 0 is out of range: 1 to 1000000',
    'COLLECTOR_LIMITS, "limits.headers-timeout-ms": "soon" is not a duration such as 10s',
  ]);
});

test('[R-801] the variables of the client are not settings, and are not reported', () => {
  const ofClients = {
    COLLECTOR_URL: 'http://127.0.0.1:8080',
    COLLECTOR_KEY: 'cek_x',
    COLLECTOR_SPOOL: './spool',
  };
  expect(faultsOf({}, ofClients)).toEqual([]);
  expect(faultsOf({}, { COLLECTOR_KEYS: 'cek_x' })).toEqual([expect.stringContaining('no such setting')]);
});

test('an unknown name without a similar one is refused without a guess', () => {
  expect(faultsOf({}, { COLLECTOR_ZZZZZZZZZZZZZZZZ: '1' })).toEqual([
    'COLLECTOR_ZZZZZZZZZZZZZZZZ: no such setting',
  ]);
});

test('variables that Kubernetes makes for a Service are explained', () => {
  expect(faultsOf({}, { COLLECTOR_SERVICE_HOST: '10.0.0.1' })).toEqual([
    expect.stringContaining('set enableServiceLinks to false'),
  ]);
});

test('values that contradict each other are refused', () => {
  expect(faultsOf({ 'max-body-bytes': '32MiB' })).toEqual([
    'limits.queue-bytes: must be at least 4 times --max-body-bytes, that is 128MiB',
  ]);
  const env = { COLLECTOR_LIMITS: '{"queue-bytes": "64MiB"}' };
  expect(faultsOf({ 'max-body-bytes': '32MiB' }, env)).toEqual([
    'COLLECTOR_LIMITS, "limits.queue-bytes": must be at least 4 times --max-body-bytes, that is 128MiB',
  ]);
  const config = file({ limits: { 'segment-bytes': '1MiB', 'headers-timeout-ms': '31s' } });
  expect(faultsOf({ config })).toEqual([
    `${config}, "limits.segment-bytes": must be at least twice --max-body-bytes, that is 2MiB`,
    `${config}, "limits.headers-timeout-ms": must be at most limits.request-timeout-ms, that is 30s`,
  ]);
  expect(loadConfig({ 'max-body-bytes': '16MiB' }, {}).maxBodyBytes).toBe(16_777_216);
});

describe('[R-801] limits', () => {
  test('are members of one object, and not options, variables or names of the file', () => {
    expect(optionsOf('serve').filter(({ name }) => /queue|limits|segment/.test(name))).toEqual([]);
    const config = file({ 'queue-bytes': '64MiB', 'limits.queue-events': 1, limits: { port: 1 } });
    expect(faultsOf({ config }, { COLLECTOR_QUEUE_BYTES: '64MiB' })).toEqual([
      'COLLECTOR_QUEUE_BYTES: no such setting; give queue-bytes in COLLECTOR_LIMITS',
      `${config}, "queue-bytes": no such setting; give queue-bytes in "limits"`,
      expect.stringContaining(`${config}, "limits.queue-events": no such setting`),
      `${config}, "limits.port": no such setting`,
    ]);
  });

  test('in a text that is not a JSON object are one fault, which does not show it', () => {
    const body = { 'max-body-bytes': '32MiB' };
    for (const [text, message] of [
      ['{"queue-bytes": secret}', 'is not JSON: see line 1, column 17'],
      ['', 'is not JSON: see line 1, column 1'],
      ['"secret"', 'is not a JSON object'],
    ] as const)
      expect(faultsOf(body, { COLLECTOR_LIMITS: text })).toEqual([`COLLECTOR_LIMITS: ${message}`]);
    for (const limits of [[], null, 5]) {
      const config = file({ limits });
      expect(faultsOf({ ...body, config })).toEqual([`${config}, "limits": is not a JSON object`]);
    }
  });

  test('are refused where one is given twice, or is neither text nor number', () => {
    const twice = '{"queue-events": 1, "queue-bytes": {}, "queue-events": 2}';
    const config = file(`{"limits": ${twice}}`);
    for (const [given, env, place] of [
      [{ config }, {}, config],
      [{}, { COLLECTOR_LIMITS: twice }, 'COLLECTOR_LIMITS'],
    ] as const)
      expect(faultsOf(given, env)).toEqual([
        `${place}, "limits.queue-events": is given more than once`,
        `${place}, "limits.queue-bytes": must be a string or a number`,
      ]);
  });
});

test('a file that is missing, is not JSON, or holds no object is refused', () => {
  expect(faultsOf({ config: '/does/not/exist' })).toEqual([
    expect.stringMatching(/^--config: cannot be read: ENOENT/),
  ]);
  const torn = file('{\n  "host": "secret" "x"\n}');
  expect(faultsOf({ config: torn })).toEqual([`--config: ${torn} is not JSON: see line 2, column 20`]);
  for (const content of ['[]', 'null', '8080']) {
    expect(faultsOf({ config: file(content) })).toEqual([expect.stringMatching(/is not a JSON object$/)]);
  }
});

test('other kinds of files are refused before they are opened, and repeated settings too', () => {
  const directory = path.dirname(file({}));
  const pipe = path.join(directory, 'pipe');
  execFileSync('mkfifo', [pipe]);
  for (const place of [pipe, '/dev/zero', directory])
    expect(faultsOf({ config: place })).toEqual([`--config: ${place} is not a regular file`]);
  const large = file({});
  truncateSync(large, 2 << 20);
  expect(faultsOf({ config: large })).toEqual([`--config: ${large} is too large for a configuration`]);
  const twice = file('{"port": 1, "host": "::1", "port": 2}');
  expect(faultsOf({ config: twice })).toEqual([`${twice}, "port": is given more than once`]);
});

test('a text, a path and a choice must be strings in the file, and only numbers may be numbers', () => {
  const config = file({
    'data-dir': 5,
    host: 1,
    profile: 2,
    port: '9000',
    limits: { 'queue-events': 7 },
    'log-level': null,
  });
  expect(faultsOf({ config })).toEqual(
    ['data-dir', 'host', 'profile', 'log-level'].map((name) => `${config}, "${name}": must be a string`),
  );
  const flag = file({ port: true });
  expect(faultsOf({ config: flag })).toEqual([`${flag}, "port": must be a string or a number`]);
});

test('any input gives a configuration in range or a ConfigError', () => {
  const { settings } = readConfig({}, {});
  const [limits, options] = [true, false].map((wanted) =>
    settings.map(({ name }) => name).filter((name) => name.startsWith('limits.') === wanted),
  ) as [string[], string[]];
  const members = limits.map((name) => name.replace('limits.', ''));
  const values = fc.oneof(fc.string(), fc.nat().map(String), fc.stringMatching(/^\d{1,6}(MiB|KiB|s|ms|m)$/));
  const dictionary = (names: readonly string[]) => fc.dictionary(fc.constantFrom(...names), values);
  fc.assert(
    fc.property(dictionary(options), dictionary(members), (given, tuned) => {
      try {
        const config = loadConfig(given, { COLLECTOR_LIMITS: JSON.stringify(tuned) });
        expect(Object.keys(config)).toEqual(Object.keys(DEFAULTS));
        expect(config.port).toBeLessThanOrEqual(65_535);
        expect(config.queueBytes).toBeGreaterThanOrEqual(4 * config.maxBodyBytes);
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError);
      }
    }),
  );
});

test('stacks are shown at log level debug and trace; the option has priority over the variable', () => {
  expect(showsStacks('debug', {})).toBe(true);
  expect(showsStacks(undefined, { COLLECTOR_LOG_LEVEL: 'trace' })).toBe(true);
  expect(showsStacks('info', { COLLECTOR_LOG_LEVEL: 'trace' })).toBe(false);
  expect(showsStacks(undefined, {})).toBe(false);
});
