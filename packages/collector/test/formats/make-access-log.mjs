// Writes the example of an access log over a change of year (make-vectors.mjs).
import fs from 'node:fs';
import path from 'node:path';
import { SALT_BYTES } from '../../../protocol/dist/index.js';
import { beginAccess } from '../../dist/commands/access-log.js';
import { OpenLooks } from '../../dist/commands/look-lines.js';
import { AccessLogHeads } from '../../dist/ledger/access-log-heads.js';
import { openAccessLog } from '../../dist/store/open-access-log.js';

const WHO = { actor: { kind: 'os', name: 'ada', proven: true, stated: 'ward 7' }, uid: 1000, user: 'ada' };

function fail(what) {
  throw new Error(what);
}

/** @param setClock sets the clock to a text. */
export async function makeAccessLog(out, setClock) {
  // Where commands of this machine's user write.
  const scratch = path.join(out, 'scratch');
  fs.mkdirSync(scratch, { recursive: true });
  const log = openAccessLog(out);
  const bodies = [];
  const heads = new AccessLogHeads({
    ...{ store: log, newest: undefined, onTrouble: fail, onAltered: fail },
    append: async ({ salted }) => void bodies.push(Buffer.from(salted.subarray(SALT_BYTES)).toString()),
  });

  /** Copies the newest line, as if the same person wrote it on every machine. */
  function copyLine() {
    const file = path.join(scratch, openAccessLog(scratch).files().at(-1));
    const newest = fs.readFileSync(file, 'utf8').trimEnd().split('\n').at(-1);
    const line = { ...JSON.parse(newest), ...WHO };
    delete line.login_uid;
    delete line.sudo_user;
    log.append(JSON.stringify(line));
  }

  setClock('2026-11-02T08:15:00.000Z');
  const hold = {
    command: 'hold add',
    filter: { name: 'case 4', target: 'patient-7' },
    reason: 'court order',
  };
  const held = beginAccess(scratch, hold);
  copyLine();
  setClock('2026-11-02T08:15:01.000Z');
  held({ events: 0, complete: true, done: { hold: '4b1c9a6e-7b0e-4a55-9d4e-1f0c5a3f2b11' } });
  copyLine();
  await heads.look();
  setClock('2026-12-31T23:59:59.000Z');
  const read = beginAccess(scratch, { command: 'records', filter: { organisation: 'icu' } });
  copyLine();
  setClock('2027-01-01T00:00:01.000Z');
  read({ events: 214, complete: false });
  copyLine();
  fs.rmSync(scratch, { recursive: true });
  setClock('2027-01-01T00:00:02.000Z');
  const look = new OpenLooks().lineOf(
    Buffer.from(
      JSON.stringify({
        ...{ state: 'begun', command: 'viewer run', uid: 990, user: null, break_glass: true },
        ...{ reason: 'patient in resuscitation', filter: { run: '0190f5fe-7c00-7a00-8000-000000000001' } },
        actor: { kind: 'oidc', name: 'dr.b', role: 'break-glass' },
      }),
    ),
  );
  log.append(look.line);
  await heads.close();
  fs.writeFileSync(path.join(out, 'heads.ndjson'), bodies.map((body) => `${body}\n`).join(''));
}
