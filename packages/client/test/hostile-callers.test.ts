/** Values that the types forbid: no call throws, the application does not end, and no value is reported. */
import { expect, onTestFinished, test } from 'vitest';
import { createClient, type Client } from '../src/index.js';
import { fakeCollector } from './running/fake-collector.js';
import { hurriedClient, temporaryDirectory } from './running/hurried-client.js';

const AWAY = 'http://127.0.0.1:9';
const MODEL = { model_id: 'm' };
const rejects = () => Promise.reject(new Error('SECRET'));
/** The compiler accepts an async function here. */
const listener: () => unknown = rejects;
const turn = () => new Promise((resolve) => setTimeout(resolve, 20));

function unhandledRejections(): unknown[] {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  return unhandled;
}

test('[R-861] callbacks that are async and reject never end the application', async () => {
  const unhandled = unhandledRejections();
  const collector = await fakeCollector((_event, response) => {
    response.writeHead(400).end();
    return true;
  });
  const { log } = hurriedClient({
    ...{ url: collector.url, onTrouble: listener, onRefused: listener, onQuarantine: listener },
  });
  const { started } = log.startRun({ model: MODEL });
  log.run('no uuid').feedback({});
  await started;
  await log.flush();
  expect(log.state).toMatchObject({ quarantined: 1, refused: 1 });
  await log.close();
  await turn();
  expect(unhandled).toEqual([]);
});

test('[R-863] if the risk predicate is async, the run is captured and the mistake is reported', async () => {
  const unhandled = unhandledRejections();
  const collector = await fakeCollector();
  const risk = (() => rejects()) as unknown as () => boolean;
  const { log, troubles } = hurriedClient({ url: collector.url, sampling: { rate: 0, risk } });
  log.startRun({ model: MODEL });
  await log.flush();
  expect(collector.accepted).toHaveLength(1);
  expect(troubles).toEqual([
    'the risk function returned a promise; it must return a boolean; the run is captured',
  ]);
  await turn();
  expect(unhandled).toEqual([]);
});

test('[R-861] an async function for the key is reported, and events wait', async () => {
  const unhandled = unhandledRejections();
  const told: unknown[] = [];
  const { log } = hurriedClient({
    ...{ url: AWAY, apiKey: rejects as unknown as () => string },
    onTrouble: (_what, error) => told.push(error),
  });
  log.startRun({ model: MODEL });
  expect(await log.flush(50)).toEqual({ waiting: 1 });
  expect(String(told[0])).toContain('returned a promise; it must return the key');
  expect(unhandled).toEqual([]);
});

const thrower = {
  get timestamp(): string {
    throw new Error('SECRET');
  },
  get model(): object {
    throw new Error('SECRET');
  },
};

test.each<[string, (log: Client) => PromiseLike<unknown>]>([
  ['undefined for a start', (log) => log.startRun(undefined as never).started],
  ['null for a start', (log) => log.startRun(null as never).started],
  ['null for details', (log) => log.startRun({}, null as never).started],
  ['null for details of an output', (log) => log.startRun({}).output({}, null as never)],
  ['a start that throws', (log) => log.startRun(thrower as never).started],
  ['details that throw', (log) => log.startRun({}).output({}, thrower)],
  ['details of a run that throw', (log) => log.startRun({}).startRun({}, thrower).started],
  ['a model of BigInts', (log) => log.startRun({ model: { model_id: 1n } } as never).started],
  ['a string for an output', (log) => log.startRun({}).output('SECRET' as never, { content: 'c' })],
])('[R-861] %s is refused to its caller, and nothing throws', async (_what, call) => {
  const { log, refusals, troubles } = hurriedClient({
    ...{ url: AWAY, content: temporaryDirectory() },
    sampling: { afterModelChange: { ms: 1000 }, risk: () => false },
  });
  await expect(call(log)).rejects.toMatchObject({ name: 'EventInvalid' });
  expect(refusals).toHaveLength(1);
  expect(troubles).toEqual([]);
  expect(String(refusals[0]?.error)).not.toContain('SECRET');
});

test('[R-861] close with null for its options closes', async () => {
  const { log } = hurriedClient({ url: AWAY });
  expect(await log.close(null as never)).toEqual({ waiting: 0 });
});

test.each([
  ['an array', ['SECRET', 'SECRET']],
  ['an object with a length', { length: 5e8 }],
  ['a number', 4711],
  ['a symbol', Symbol('SECRET')],
  ['null', null],
  ['a view of floats', new Float64Array(2)],
])(
  '[R-864] %s is not content: the event is refused immediately, and no value is reported',
  async (_what, content) => {
    const { log } = hurriedClient({ url: AWAY, content: temporaryDirectory() });
    const { started } = log.startRun({}, { content: content as string });
    const error: unknown = await started.then(undefined, (reason: unknown) => reason);
    expect(error).toMatchObject({ name: 'ContentNotStored' });
    expect(String(error)).toContain('ContentNotStored');
    expect(String(error)).not.toMatch(/SECRET|4711/);
  },
);

test('[R-864] the bytes of a Uint8Array are taken, whatever length it claims', async () => {
  const stored: number[] = [];
  const store = { put: (bytes: Uint8Array) => Promise.resolve(void stored.push(bytes.length)) };
  const { log } = hurriedClient({ url: AWAY, content: store });
  const content = Object.defineProperty(new Uint8Array(3), 'length', { value: 5e8 });
  await log.startRun({}, { content }).started;
  expect(stored).toEqual([3]);
});

const RUN_ID = '0190aabb-ccdd-7102-8304-050607000000';

test.each<[string, (log: Client) => PromiseLike<unknown>, string]>([
  [
    'a start',
    (log) => log.startRun({ modell: MODEL } as never).started,
    'there is no "modell" in the start of a run; did you mean "model"?',
  ],
  [
    'a nested start',
    (log) => log.startRun({}).startRun({ prompt: 'SECRET' } as never).started,
    'there is no "prompt" in the start of a run, which has model, user, target, inputs',
  ],
  [
    'a value for a name',
    (log) => log.startRun({ 'Mrs SECRET': 1 } as never).started,
    'there is no such name in the start of a run, which has model, user, target, inputs',
  ],
  [
    'details of a start',
    (log) => log.startRun({}, { runID: RUN_ID } as never).started,
    'there is no "runID" in the details of inference-start; did you mean "runId"?',
  ],
  [
    'details of an output',
    (log) => log.run(RUN_ID).output({}, { latencyMS: 5 } as never),
    'there is no "latencyMS" in the details of human-output; did you mean "latencyMs"?',
  ],
  [
    'a run id for an artifact',
    (log) =>
      log
        .run(RUN_ID)
        .artifact({ artifact_type: 'other', artifact_uri: 'urn:x:1' }, { runId: RUN_ID } as never),
    'there is no "runId" in the details of internal-artifact, which has',
  ],
  [
    'details of an outcome',
    (log) => log.run(RUN_ID).outcome({}, { metaData: {} } as never),
    'there is no "metaData" in the details of outcome; did you mean "metadata"?',
  ],
  [
    'content of feedback',
    (log) => log.run(RUN_ID).feedback({}, { content: 'SECRET' } as never),
    'there is no "content" in the details of user-feedback, which has parentEventId',
  ],
])('[R-861] %s with an unknown name is refused with a suggestion', async (_what, call, sentence) => {
  const { log, refusals } = hurriedClient({ url: AWAY, content: temporaryDirectory() });
  const error: unknown = await call(log).then(undefined, (reason: unknown) => reason);
  const message = expect.stringContaining(sentence) as string;
  expect(error).toMatchObject({
    ...{ name: 'EventInvalid', code: 'unknown_name' },
    issues: [{ pointer: '', rule: 'unknown_name', message }],
  });
  expect(String(error)).toContain(sentence);
  expect(String(error)).not.toContain('SECRET');
  expect(refusals.map(({ error: told }) => told)).toEqual([error]);
});

test('[R-861] an unknown name is allowed if undefined, and in the objects of the protocol', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const run = log.startRun({ model: { modell: 1 }, more: undefined } as never, { content: undefined });
  await run.feedback({ stars: 5 }, { content: undefined } as never);
  await log.flush();
  expect(collector.accepted.map(({ event }) => [event['model_instance'], event['feedback']])).toEqual([
    [{ modell: 1 }, undefined],
    [undefined, { stars: 5 }],
  ]);
});

test('[R-861] an unknown option of close is reported', async () => {
  const { log, troubles } = hurriedClient({ url: AWAY });
  expect(await log.close({ timeout: 5 } as never)).toEqual({ waiting: 0 });
  expect(troubles).toEqual(['there is no "timeout" in the options of close; did you mean "timeoutMs"?']);
});

const FINE = { url: AWAY, apiKey: 'key', spool: { durability: 'memory' as const } };

test.each([
  ['no options', undefined],
  ['null', null],
  ['no spool', { ...FINE, spool: undefined }],
  ['a number for a share', { ...FINE, sampling: 0.5 }],
  ['0 for a share', { ...FINE, sampling: 0 }],
  ['a string for a time', { ...FINE, sampling: { afterModelChange: { ms: '7d' } } }],
  ['a string for a rate', { ...FINE, sampling: { rate: '0.5' } }],
  ['no durability', { ...FINE, spool: { directory: 'spool', durability: '' } }],
  ['null for content', { ...FINE, content: null }],
])('%s is a RangeError when the client is made', (_what, options) => {
  expect(() => createClient(options as never)).toThrow(RangeError);
});

test.each([
  [{ apikey: 'k' }, 'there is no "apikey" in the options of createClient; did you mean "apiKey"?'],
  [{ onTroubles: 1 }, 'did you mean "onTrouble"?'],
  [
    { spool: { durability: 'memory', maxbytes: 5 } },
    'there is no "maxbytes" in spool; did you mean "maxBytes"?',
  ],
  [{ app: { appName: 'chat' } }, 'there is no "appName" in app; did you mean "app_name"?'],
  [{ sampling: { rates: 1 } }, 'there is no "rates" in sampling; did you mean "rate"?'],
  [{ sampling: { window: { run: 1 } } }, 'there is no "run" in sampling.window; did you mean "runs"?'],
  [{ sampling: { afterModelChange: { ms: 1, rat: 1 } } }, 'did you mean "rate"?'],
  [{ content: { bucket: 'b', regoin: 'r' } }, 'there is no "regoin" in content; did you mean "region"?'],
])('[R-861] %j is a RangeError when the client is made, with the nearest name', (options, sentence) => {
  expect(() => createClient({ ...FINE, ...options } as never)).toThrow(sentence);
  expect(() => createClient({ ...FINE, ...options } as never)).toThrow(RangeError);
});

test.each([
  ['an empty key', { directory: 'unused', key: '' }, 'SpoolKeyWrong'],
  ['null for a key', { directory: 'unused', key: null }, 'SpoolKeyWrong'],
  ['0 for a key', { directory: 'unused', key: 0 }, 'SpoolKeyWrong'],
  ['a string for a key', { directory: 'unused', key: 'x'.repeat(32) }, 'SpoolKeyWrong'],
  ['an empty name of a directory', '', 'SpoolUnwritable'],
  ['an object with an empty name of a directory', { directory: '' }, 'SpoolUnwritable'],
  ['NaN for a size', { durability: 'memory', maxBytes: NaN }, 'RangeError'],
])(
  '[R-855] with %s for a spool, nothing is captured anywhere, and this is reported',
  async (_what, spool, name) => {
    const { log, troubles } = hurriedClient({ url: AWAY, spool: spool as '' });
    await expect(log.startRun({}).started).rejects.toMatchObject({ name });
    expect(troubles).toEqual(['the spool cannot be used; no events are captured']);
  },
);

test('[R-864] content for an empty directory name is refused', async () => {
  const { log } = hurriedClient({ url: AWAY, content: '' });
  await expect(log.startRun({}, { content: 'c' }).started).rejects.toMatchObject({
    name: 'ContentNotStored',
  });
});

test.each([
  ['an object whose toJSON returns undefined', { toJSON: () => undefined }],
  ['an object whose toJSON returns a UUID', { toJSON: () => RUN_ID }],
  ['a String object with a UUID', new String(RUN_ID)],
  ['a UUID and half a surrogate pair', `${RUN_ID}\ud800`],
  ['a number', 5],
  ['a list', [RUN_ID]],
])('[R-861] %s is no id: the event is refused', async (_what, given) => {
  const id = given as string;
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  const invalid = (pointer: string) => ({ code: 'validation_failed', issues: [{ pointer }] });
  await expect(log.run(id).outcome({})).rejects.toMatchObject(invalid('/run_id'));
  await expect(log.startRun({}, { runId: id }).started).rejects.toMatchObject(invalid('/run_id'));
  const child = log.run(RUN_ID).outcome({}, { parentEventId: id });
  await expect(child).rejects.toMatchObject(invalid('/parent_event_id'));
  await log.flush();
  expect(collector.accepted).toEqual([]);
});
