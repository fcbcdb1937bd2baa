import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { EVENT_PATHS } from '@clinical-events/protocol';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Authority, writePair, type Issued } from '../running/certificates.js';
import { limits, run, start, temporaryDirectory, type Running } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { send } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';
import { post, resume, type Answer, type Sender } from '../running/tls-client.js';

const URI = 'uri:spiffe://example.org/triage';
const DNS = 'dns:triage.example.org';

const authority = new Authority();
const clients = new Authority('Client CA');
/** The collector does not trust these, although the second has the name of one that it trusts. */
const strangers = new Authority('Stranger CA');
const forgers = new Authority('Client CA');

/** What a client may come with. */
const COMING = {
  nothing: undefined,
  'its own certificate': clients.issue({ names: [URI, DNS] }),
  'a renewed one': clients.issue({ commonName: 'renewed', names: ['dns:other.example.org', URI, DNS] }),
  'that of another': clients.issue({
    names: ['uri:spiffe://example.org/triage2', 'dns:a.triage.example.org'],
  }),
  'the name in the subject alone': clients.issue({ commonName: 'triage.example.org' }),
  'the name as part of another': clients.issue({
    names: [`dns:x, URI:${URI.slice(4)}`, 'dns:*.example.org'],
  }),
  'one of an unknown authority': strangers.issue({ names: [URI, DNS] }),
  'an expired one': clients.issue({ names: [URI, DNS], days: -1 }),
} as const satisfies Record<string, Issued | undefined>;
type Coming = keyof typeof COMING;
const GOOD: readonly Coming[] = ['its own certificate', 'a renewed one'];
const VERIFIED: readonly Coming[] = [
  ...GOOD,
  'that of another',
  'the name in the subject alone',
  'the name as part of another',
];

const directory = temporaryDirectory();
const keys = { unbound: '', uri: '', dns: '', noPermission: '' };
const running: Record<'required' | 'optional', Running | undefined> = {
  required: undefined,
  optional: undefined,
};

beforeAll(async () => {
  const pair = writePair(directory, authority.issue({ names: ['dns:collector.test'] }));
  const ca = path.join(directory, 'clients.crt');
  fs.writeFileSync(ca, clients.certificate);
  for (const auth of ['required', 'optional'] as const) {
    const dataDir = path.join(directory, auth);
    if (auth === 'required') {
      keys.unbound = (await issueKey(dataDir)).text;
      keys.uri = (await issueKey(dataDir, { clientCertificate: URI })).text;
      keys.dns = (await issueKey(dataDir, { clientCertificate: DNS })).text;
      keys.noPermission = (
        await issueKey(dataDir, { permissions: ['human-output'], clientCertificate: URI })
      ).text;
    } else fs.cpSync(path.join(directory, 'required'), dataDir, { recursive: true });
  }
  for (const auth of ['required', 'optional'] as const) {
    const options = [
      ...pair,
      '--tls-client-ca',
      ca,
      '--tls-client-auth',
      auth,
      ...limits({ 'segment-bytes': '2MiB' }),
    ];
    running[auth] = await start(path.join(directory, auth), options);
  }
});
afterAll(async () => {
  for (const collector of Object.values(running)) await collector?.stop();
  fs.rmSync(directory, { recursive: true, force: true });
});

function sender(coming: Coming): Sender {
  return { ca: authority.certificate, client: COMING[coming] };
}

function postTo(auth: 'required' | 'optional', key: string, coming: Coming): Promise<Answer | 'turned away'> {
  return post(running[auth]?.port ?? 0, key, sender(coming)).catch(() => 'turned away' as const);
}

const accepted = { status: 201, code: undefined };
const required = { status: 401, code: 'certificate_required' };

describe.each(Object.keys(COMING) as Coming[])('a client with %s [R-821]', (coming) => {
  const verified = VERIFIED.includes(coming);
  const good = GOOD.includes(coming);

  test('is accepted, or rejected in the handshake, where one is required', async () => {
    expect(await postTo('required', keys.unbound, coming)).toEqual(verified ? accepted : 'turned away');
  });

  test('is accepted with a key that is not bound where one is optional', async () => {
    expect(await postTo('optional', keys.unbound, coming)).toEqual(accepted);
  });

  test.each(['uri', 'dns'] as const)(
    'may use a key that is bound to its %s only if it has that name',
    async (key) => {
      expect(await postTo('optional', keys[key], coming)).toEqual(good ? accepted : required);
      const strict = good ? accepted : verified ? required : 'turned away';
      expect(await postTo('required', keys[key], coming)).toEqual(strict);
    },
  );

  test('needs a key, whatever certificate it has', async () => {
    expect(await postTo('optional', 'cek', coming)).toEqual({ status: 401, code: 'key_invalid' });
  });
});

test('an authority with the same name is not the same authority [R-821]', async () => {
  const forged: Sender = { ca: authority.certificate, client: forgers.issue({ names: [URI, DNS] }) };
  for (const auth of ['required', 'optional'] as const) {
    for (const key of [keys.uri, keys.dns]) {
      const answer = await post(running[auth]?.port ?? 0, key, forged).catch(() => undefined);
      expect(answer?.status).not.toBe(201);
    }
    expect(await postTo(auth, keys.uri, 'its own certificate')).toEqual(accepted);
  }
});

test('the certificate is asked for with the key, before the permission [R-821] [R-313]', async () => {
  expect(await postTo('optional', keys.noPermission, 'nothing')).toEqual(required);
  expect(await postTo('optional', keys.noPermission, 'its own certificate')).toEqual({
    status: 403,
    code: 'permission_denied',
  });
});

test('a sender without the right secret learns nothing of the certificate for the key [R-821]', async () => {
  const wrong = `${keys.uri.slice(0, -4)}AAAA`;
  expect(await postTo('optional', wrong, 'nothing')).toEqual({ status: 401, code: 'key_invalid' });
});

test('a refusal for a missing certificate is logged with the id of the key [R-821]', async () => {
  await postTo('optional', keys.uri, 'that of another');
  // Not each of them: the lines per second are limited.
  const line = new RegExp(`"code":"certificate_required".*"keyId":"${keys.uri.slice(4, 16)}"`);
  await expect.poll(() => running.optional?.output.stderr).toMatch(line);
  expect(running.optional?.output.stderr).not.toContain(keys.uri.slice(17));
});

test('a connection may outlast its certificate, and a bound key is refused on it from then on [R-821]', async () => {
  const port = running.required?.port ?? 0;
  // Again with more time where the machine takes longer than that to connect.
  for (let [seconds, isOpen] = [6, false]; !isOpen; seconds *= 4) {
    const client = clients.issue({ names: [URI], days: seconds / 86_400 });
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const own: Sender = { ca: authority.certificate, client, agent };
    const first = await post(port, keys.uri, own).catch((error: unknown) => error);
    isOpen = isDeepStrictEqual(first, accepted);
    if (!isOpen) continue;
    await sleep(seconds * 1000);
    expect(await post(port, keys.uri, own)).toEqual(required);
    expect(await post(port, keys.unbound, own)).toEqual(accepted);
  }
});

const hasCurl = spawnSync('curl', ['--version']).status === 0;

test.skipIf(!hasCurl)(
  'the curl line of a new key works when pasted, with and without a client certificate [R-505]',
  async () => {
    const client = path.join(directory, "a client's");
    fs.mkdirSync(client);
    const { certificate, key } = COMING['its own certificate'];
    fs.writeFileSync(path.join(client, 'client.crt'), certificate);
    fs.writeFileSync(path.join(client, 'client.key'), key, { mode: 0o600 });
    const paste = (stdout: string) => {
      const line = /^curl [^]*/m.exec(stdout)?.[0] ?? '';
      return spawnSync('sh', ['-c', line], { cwd: client, encoding: 'utf8' }).stdout;
    };
    const env = {
      COLLECTOR_TLS_CERT: path.join(directory, 'tls.crt'),
      COLLECTOR_TLS_KEY: path.join(directory, 'tls.key'),
      COLLECTOR_TLS_CLIENT_CA: path.join(directory, 'clients.crt'),
    };
    const create = async (auth: 'required' | 'optional', ...more: readonly string[]) => {
      const port = String(running[auth]?.port);
      const of = ['keys', 'create', '--permissions', 'all', '--data-dir', path.join(directory, auth)];
      const issued = await run([...of, '--port', port, ...more], {
        env: { ...env, COLLECTOR_TLS_CLIENT_AUTH: auth },
      });
      return issued.stdout;
    };
    const bound = await create('optional', '--client-certificate', URI);
    expect(bound).toContain('in client.crt and client.key');
    // The running collector reads the key within a second.
    const works = (line: string) => expect.poll(() => paste(line)).toBe('{"status":"accepted"}');
    await works(bound);
    await works(await create('required'));
    const free = await create('optional');
    expect(free).not.toContain('client.crt');
    await works(free);
    fs.rmSync(client, { recursive: true });
  },
);

test('changed authorities apply from the next connection on [R-821]', async () => {
  const collector = running.required;
  const use = async (ca: Authority) => {
    const told = () => collector?.output.stderr.match(/TLS certificate in use/g)?.length ?? 0;
    const before = told();
    fs.writeFileSync(path.join(directory, 'clients.crt'), ca.certificate);
    collector?.process.kill('SIGHUP');
    await expect.poll(told).toBe(before + 1);
  };
  await use(strangers);
  expect(await postTo('required', keys.uri, 'one of an unknown authority')).toEqual(accepted);
  expect(await postTo('required', keys.uri, 'its own certificate')).toBe('turned away');
  await use(clients);
  expect(await postTo('required', keys.uri, 'its own certificate')).toEqual(accepted);
});

test('a session is not resumed: every connection proves its certificate [R-821]', async () => {
  const port = running.optional?.port ?? 0;
  const client = sender('its own certificate');
  const { session } = await resume(port, client);
  expect((await resume(port, client, session)).resumed).toBe(false);
  const older: Sender = { ...client, options: { maxVersion: 'TLSv1.2' } };
  expect((await resume(port, older, (await resume(port, older)).session)).resumed).toBe(false);
});

test('without TLS a bound key is refused [R-821]', async () => {
  const dataDir = temporaryDirectory();
  const { text } = await issueKey(dataDir, { clientCertificate: DNS });
  const plain = await start(dataDir);
  const parts = { target: EVENT_PATHS.outcome, key: text, body: JSON.stringify(sampleEvent()) };
  const answer = await send(plain.port, parts);
  expect([answer.status, answer.error().code]).toEqual([401, 'certificate_required']);
  await plain.stop();
  fs.rmSync(dataDir, { recursive: true });
});
