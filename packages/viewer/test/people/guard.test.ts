import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { type Person, ROLES, type Role } from '../../src/contract.js';
import { PAGES, PERMITS, type Page, covers, guardOf, isRefused } from '../../src/people/guard.js';
import { type Roles, openRoles } from '../../src/people/roles.js';
import { Sessions } from '../../src/people/sessions.js';

/** What the design permits, written a second time. */
const PERMITTED: Readonly<Record<Role, readonly Page[]>> = {
  reviewer: ['runs', 'lookup', 'run', 'contents', 'report', 'proof'],
  clinician: ['runs', 'lookup', 'run', 'contents', 'proof'],
  auditor: ['runs', 'run', 'report', 'proof'],
  'break-glass': ['runs', 'lookup', 'run', 'contents', 'report', 'proof'],
};

const FILE = {
  roles: ROLES.map((role) => ({
    ...{ role, groups: [role] },
    ...(role === 'break-glass' ? { organisations: '*' } : { organisations: ['in'], applications: ['in'] }),
  })),
};

function rolesOfFile(): Roles {
  const directory = fs.mkdtempSync(path.join(tmpdir(), 'guard-'));
  const file = path.join(directory, 'roles.json');
  fs.writeFileSync(file, JSON.stringify(FILE));
  const quiet = () => undefined;
  const roles = openRoles({ file, log: { info: quiet, warn: quiet }, clock: () => 0 });
  fs.rmSync(directory, { recursive: true });
  return roles;
}

test('[R-2047] each role permits exactly its pages, organisations, applications and callers', () => {
  const sessions = new Sessions(() => 0);
  const actingFor = guardOf(rolesOfFile(), sessions);
  let shown = 0;
  for (const has of ROLES)
    for (const isGranted of [false, true]) {
      const person: Person = { kind: 'oidc', name: 'ada', callerId: 'me', groups: [has] };
      const { session } = sessions.begin(person);
      if (isGranted) sessions.grant(session, 'a reason of some length');
      const request = { viewerSession: session } as FastifyRequest;
      for (const role of [...ROLES, 'constructor', 'Reviewer'])
        for (const page of PAGES) {
          const acting = actingFor(request, role, page);
          const permitted =
            role === has && PERMITTED[has].includes(page) && (role !== 'break-glass' || isGranted);
          expect(!isRefused(acting), `${has} ${role} ${page}`).toBe(permitted);
          if (isRefused(acting)) continue;
          for (const organisation of ['in', 'out'])
            for (const application of ['in', 'out', undefined])
              for (const callers of [['me'], ['other'], ['me', 'other'], []]) {
                const isIn =
                  role === 'break-glass' ||
                  (organisation === 'in' &&
                    application === 'in' &&
                    (role !== 'clinician' || callers.join() === 'me'));
                expect(covers(acting.scope, { organisation, application, callers })).toBe(isIn);
                shown++;
              }
        }
    }
  expect(shown).toBe((6 + 5 + 4) * 2 * 24 + 6 * 24);
  expect(isRefused(actingFor({ viewerSession: undefined } as FastifyRequest, 'auditor', 'runs'))).toBe(true);
});

test('[R-2047] the table of permissions is complete', () => {
  for (const role of ROLES)
    expect(
      PAGES.filter((page) => PERMITS[role][page]),
      role,
    ).toEqual(PAGES.filter((page) => PERMITTED[role].includes(page)));
});
