import fs from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Person } from '../../src/contract.js';
import { ConfigError } from '../../../collector/src/config.js';
import { EVERY_ROLE, openRoles, rolesFrom } from '../../src/people/roles.js';
import { ROLES_FILE } from './viewer.js';

function person(...groups: readonly string[]): Person {
  return { kind: 'oidc', name: 'ada', callerId: 'ada-1', groups };
}

function rolesOf(file: object) {
  const directory = fs.mkdtempSync(path.join(tmpdir(), 'roles-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true }));
  const at = { file: path.join(directory, 'roles.json'), now: 0, lines: [] as string[] };
  const line = (fields: object, message: string) =>
    void at.lines.push(`${message} ${JSON.stringify(fields)}`);
  fs.writeFileSync(at.file, JSON.stringify(file));
  const roles = openRoles({ file: at.file, log: { info: line, warn: line }, clock: () => at.now });
  return Object.assign(at, { roles });
}

function faultsOf(text: string): readonly string[] {
  try {
    rolesFrom(text);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.faults.map(({ message }) => message);
    throw error;
  }
}

test('[R-2047] groups give roles, and entries of a role are joined', () => {
  const { roles } = rolesOf({
    roles: [
      ...ROLES_FILE.roles,
      { role: 'auditor', groups: ['audit-north'], organisations: ['north'] },
      { role: 'clinician', groups: ['nurses'], organisations: ['north'] },
    ],
  });
  expect(roles.of(person()).roles.size).toBe(0);
  expect([...roles.of(person('ai-safety', 'audit')).roles]).toEqual([
    ['reviewer', { organisations: ['st-mary'], applications: ['sepsis'], caller: undefined }],
    ['auditor', { organisations: undefined, applications: undefined, caller: undefined }],
  ]);
  expect(roles.of(person('audit-north')).roles.get('auditor')?.organisations).toEqual(['north']);
  expect(roles.of(person('audit-north', 'audit')).roles.get('auditor')?.organisations).toBeUndefined();
  expect(roles.of(person('doctors', 'nurses')).roles.get('clinician')).toEqual({
    organisations: ['st-mary', 'north'],
    applications: undefined,
    caller: 'ada-1',
  });
  expect(roles.of(person('Audit')).roles.size).toBe(0);
});

test('[R-2047] areas that cannot be joined are withheld, and a clinician without an id', () => {
  const { roles } = rolesOf({
    roles: [
      { role: 'reviewer', groups: ['a'], organisations: ['north'], applications: ['sepsis'] },
      { role: 'reviewer', groups: ['b'], organisations: ['south'], applications: ['triage'] },
      { role: 'clinician', groups: ['c'], organisations: '*' },
    ],
  });
  expect(roles.of(person('a')).roles.get('reviewer')?.organisations).toEqual(['north']);
  const both = roles.of(person('a', 'b'));
  expect([both.roles.size, both.notes.length]).toEqual([0, 1]);
  const clinician = roles.of({ ...person('c'), callerId: undefined });
  expect([clinician.roles.size, clinician.notes.length]).toEqual([0, 1]);
});

test('[R-2047] every fault of the file is reported with its place', () => {
  const text = JSON.stringify({
    roles: [
      { role: 'boss', groups: [], organisations: 'all', colour: 'red' },
      { role: 'auditor', groups: ['a', ' b'], organisations: ['x', '*'], applications: [7] },
      'auditor',
    ],
    caller_claim: '',
    extra: 1,
  });
  expect(faultsOf(text).map((fault) => fault.slice(0, fault.indexOf(':')))).toEqual([
    'the file',
    'caller_claim',
    'roles[0]',
    'roles[0].role',
    'roles[0].organisations',
    'roles[0].groups',
    'roles[1].organisations[1]',
    'roles[1].applications[0]',
    'roles[1].groups[1]',
    'roles[2]',
    'roles[2].role',
    'roles[2].organisations',
    'roles[2].groups',
  ]);
  expect(faultsOf('{')).toEqual(['the file is not JSON']);
  expect(faultsOf('[]')).toHaveLength(2);
  expect(faultsOf('{"roles":[],"roles":[]}')).toEqual(['an object has two members of the same name']);
  expect(faultsOf('{"roles":[]}')).toHaveLength(1);
  const narrow = { role: 'break-glass', groups: ['g'], organisations: ['north'] };
  expect(faultsOf(JSON.stringify({ roles: [narrow] }))).toEqual([
    expect.stringContaining('shows everything'),
  ]);
  const [a, b] = [
    { role: 'reviewer', groups: ['g', 'h'], organisations: ['north'], applications: ['sepsis'] },
    { role: 'reviewer', groups: ['h'], organisations: ['south'] },
  ];
  expect(faultsOf(JSON.stringify({ roles: [a, b] }))).toEqual([
    expect.stringMatching(/^roles\[1\]: roles\[0\] /),
  ]);
  expect(faultsOf(JSON.stringify({ roles: [a, { ...b, applications: ['sepsis'] }] }))).toEqual([]);
  expect(faultsOf(JSON.stringify({ roles: [a, { ...b, organisations: '*' }] }))).toEqual([]);
});

test('[R-2047] a changed file is read within a second, and a faulty one changes nothing', () => {
  const at = rolesOf(ROLES_FILE);
  expect(at.roles.of(person('audit')).roles.size).toBe(1);
  fs.writeFileSync(
    at.file,
    JSON.stringify({ ...ROLES_FILE, roles: ROLES_FILE.roles.slice(0, 2), caller_claim: 'oid' }),
  );
  expect(at.roles.of(person('audit')).roles.size).toBe(1);
  at.now += 1000;
  expect(at.roles.of(person('audit')).roles.size).toBe(0);
  expect(at.roles.callerClaim).toBe('oid');
  fs.writeFileSync(at.file, '{"roles":');
  for (let second = 0; second < 5; second++) {
    at.now += 1000;
    expect(at.roles.of(person('ai-safety')).roles.size).toBe(1);
  }
  fs.rmSync(at.file);
  at.now += 1000;
  expect(at.roles.of(person('ai-safety')).roles.size).toBe(1);
  expect(at.lines.map((line) => line.slice(0, 21))).toEqual([
    'roles file read again',
    'roles file has faults',
    'roles file has faults',
  ]);
});

test('[R-2047] without a file the local person has every role', () => {
  expect([...EVERY_ROLE.of({ ...person(), kind: 'os' }).roles.keys()]).toEqual([
    'reviewer',
    'clinician',
    'auditor',
    'break-glass',
  ]);
});
