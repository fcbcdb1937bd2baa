/** The same over the servers of hospitals, where installed: PostgreSQL of Debian, in another language, and PgBouncer. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { CommitUnknown } from '@clinical-events/collector/store/contract/events';
import { parseAddress } from '../src/address.js';
import { migrateLog } from '../src/administration.js';
import { PostgresStore } from '../src/postgres-store.js';
import { hasPgBouncer, startPgBouncer } from './running/pgbouncer.js';
import { DEBIAN_15, PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { candidate } from '../../collector/test/store/candidate.js';
import { postgresConformance } from './conformance.js';

const hasDebian = fs.existsSync(DEBIAN_15);
/** One that is not English, if there is any. */
const LOCALE = spawnSync('locale', ['-a'], { encoding: 'utf8' })
  .stdout.split('\n')
  .find((name) => /^(?!en)[a-z]{2}_.*utf-?8$/i.test(name));
const debian = { programs: DEBIAN_15, ...(LOCALE !== undefined && { locale: LOCALE }) };

if (!hasDebian) console.warn(`\n*** POSTGRESQL 15 IS NOT TESTED HERE: there is no ${DEBIAN_15}\n`);
else if (LOCALE === undefined)
  console.warn('\n*** POSTGRESQL 15 SPEAKS ENGLISH HERE: no other locale is installed\n');
if (!hasPgBouncer) console.warn('\n*** PGBOUNCER IS NOT TESTED HERE: it is not installed\n');

describe.skipIf(!hasDebian)(`[R-1425] PostgreSQL 15 in ${LOCALE ?? 'C'}`, () => {
  postgresConformance(async () => {
    const server = await PostgresServer.start({}, debian);
    return { server, port: server.port, remove: () => server.remove() };
  });
});

describe.skipIf(!hasPgBouncer)('[R-1251] through PgBouncer in transaction mode', () => {
  /** At least as many as the logs of the suites. */
  const users = Array.from({ length: 500 }, (_, i) => `log_${i}`);

  describe('where the roles have the settings that a collector asks for', () => {
    postgresConformance(async () => {
      const server = await PostgresServer.start({ client_min_messages: 'warning' });
      const bouncer = await startPgBouncer(server, { users, ignored: 'options' });
      const remove = async () => {
        await bouncer.stop();
        await server.remove();
      };
      return { server, port: bouncer.port, remove };
    });
  });

  test('where they do not, dropped settings are detected with each batch, and without a drop no connection is added', async () => {
    const server = await PostgresServer.start();
    onTestFinished(() => server.remove());
    await server.query('CREATE ROLE collector LOGIN SUPERUSER');
    await migrateLog(parseAddress(server.url('postgres', 'collector')), 'local');
    const troubles: string[] = [];
    const open = async (ignored: string) => {
      const bouncer = await startPgBouncer(server, { users: ['collector'], ignored });
      onTestFinished(() => bouncer.stop());
      const store = await PostgresStore.open({
        address: parseAddress(`postgres://collector@127.0.0.1:${bouncer.port}/postgres`),
        sealKey: () => Promise.resolve(SEAL_KEY),
        ...{ lanes: 1, version: 'test', onLost: () => undefined },
        onTrouble: (_, error) => troubles.push((error as Error).message),
      });
      onTestFinished(() => store.close());
      return store;
    };
    await expect(open('extra_float_digits')).rejects.toThrow('unsupported startup parameter: options');
    const store = await open('options');
    await expect(store.append([candidate()])).rejects.toThrow(CommitUnknown);
    expect(troubles).toContain('client_min_messages is notice');
  });
});
