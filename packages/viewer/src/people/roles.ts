/** The roles file: which groups have which role, in which organisations and applications. */
import fs from 'node:fs';
import { readJson } from '@clinical-events/collector/ledger/strict-json';
import { isObject } from '@clinical-events/protocol';
import { ConfigError } from '@clinical-events/collector/config';
import { type Person, ROLES, type Role, type Scope } from '../contract.js';

/** An entry of the file. Undefined lists stand for all. */
interface Entry {
  readonly role: Role;
  readonly groups: readonly string[];
  readonly organisations: readonly string[] | undefined;
  readonly applications: readonly string[] | undefined;
}

interface RolesFile {
  readonly entries: readonly Entry[];
  readonly callerClaim: string;
}

/** The roles of a person, and sentences about roles that are withheld. */
export interface PersonRoles {
  readonly roles: ReadonlyMap<Role, Scope>;
  readonly notes: readonly string[];
}

/** What roles persons have now. */
export interface Roles {
  of(person: Person): PersonRoles;
  /** The claim of a login that is the `caller_id` of the person in events. */
  readonly callerClaim: string;
  /** Every group that the file names. */
  readonly groups: readonly string[];
}

const CALLER_CLAIM = 'preferred_username';
const MOST_BYTES = 1 << 20;
const LONGEST = 256;
const MOST_DEPTH = 8;
const JSON_FAULTS = {
  invalid_json: 'the file is not JSON',
  nesting_too_deep: 'the file is nested too deeply',
  duplicate_key: 'an object has two members of the same name',
};
const STAT_MS = 1000;
const ALL = '*';

/** The roles of `--auth local` without a file: every role, everywhere. */
export const EVERY_ROLE: Roles = {
  of: (person) =>
    joined(
      person,
      ROLES.map((role) => ({ role, groups: [], organisations: undefined, applications: undefined })),
    ),
  callerClaim: CALLER_CLAIM,
  groups: [],
};

/** Lines of the log hold no token, code, name or id of a person. */
export interface PeopleLog {
  info(fields: Readonly<Record<string, string | number>>, message: string): void;
  warn(fields: Readonly<Record<string, string | number>>, message: string): void;
}

export interface RolesOptions {
  readonly file: string;
  readonly log: PeopleLog;
  /** Milliseconds since 1970 UTC. */
  readonly clock: () => number;
}

/**
 * The roles by a file, which is read again when it changes; a file with faults changes nothing.
 * @throws ConfigError
 */
export function openRoles({ file, log, clock }: RolesOptions): Roles {
  let stamp = stampOf(file);
  let now = readRoles(file);
  let lookedAt = clock();
  const current = (): RolesFile => {
    if (Math.abs(clock() - lookedAt) < STAT_MS) return now;
    lookedAt = clock();
    const found = stampOf(file);
    if (found === stamp) return now;
    stamp = found;
    try {
      now = readRoles(file);
      log.info({ entries: now.entries.length }, 'roles file read again');
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      log.warn({ faults: error.message }, 'roles file has faults, the former roles stay');
    }
    return now;
  };
  return {
    of: (person) =>
      joined(
        person,
        current().entries.filter(({ groups }) => groups.some((group) => person.groups.includes(group))),
      ),
    get callerClaim() {
      return current().callerClaim;
    },
    get groups() {
      return [...new Set(current().entries.flatMap(({ groups }) => groups))];
    },
  };
}

/** @param faults one line each, with their places. */
function faulty(faults: readonly string[]): ConfigError {
  return new ConfigError(faults.map((message) => ({ source: '--roles', message })));
}

function stampOf(file: string): string {
  const found = fs.statSync(file, { bigint: true, throwIfNoEntry: false });
  return found === undefined
    ? ''
    : `${found.dev} ${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}`;
}

/** Joins the entries of each role, unless the join would permit what no entry permits. */
function joined(person: Person, entries: readonly Entry[]): PersonRoles {
  const roles = new Map<Role, Scope>();
  const notes: string[] = [];
  for (const role of ROLES) {
    const [first, ...others] = entries.filter((entry) => entry.role === role);
    if (first === undefined) continue;
    const all = [first, ...others];
    if (all.some((a) => all.some((b) => widens(a, b))))
      notes.push(
        `Your groups give you the role ${role} for several areas that cannot be combined. ` +
          'Ask the administrator of the viewer.',
      );
    else if (role === 'clinician' && person.callerId === undefined)
      notes.push('Your login does not state your id as a caller, so the role clinician is not available.');
    else
      roles.set(role, {
        organisations: union(all.map(({ organisations }) => organisations)),
        applications: union(all.map(({ applications }) => applications)),
        caller: role === 'clinician' ? person.callerId : undefined,
      });
  }
  return { roles, notes };
}

type Names = readonly string[] | undefined;

function union(lists: readonly Names[]): Names {
  const known = lists.filter((list) => list !== undefined);
  return known.length < lists.length ? undefined : [...new Set(known.flat())];
}

/** Whether the union of both lists, member by member, permits more than one entry or the other. */
function widens(a: Entry, b: Entry): boolean {
  const within = (inner: Names, outer: Names) =>
    outer === undefined || (inner?.every((name) => outer.includes(name)) ?? false);
  const same = (x: Names, y: Names) => within(x, y) && within(y, x);
  const inside = (x: Entry, y: Entry) =>
    within(x.organisations, y.organisations) && within(x.applications, y.applications);
  return !(
    same(a.organisations, b.organisations) ||
    same(a.applications, b.applications) ||
    inside(a, b) ||
    inside(b, a)
  );
}

/** @throws ConfigError with every fault. */
function readRoles(file: string): RolesFile {
  let text: string;
  try {
    if (fs.statSync(file).size > MOST_BYTES) throw faulty(['the file is larger than 1 MiB']);
    text = fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw faulty([`the file cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`]);
  }
  return rolesFrom(text);
}

/** @throws ConfigError with every fault. */
export function rolesFrom(text: string): RolesFile {
  const { value, fault } = { value: undefined, ...readJson(text, MOST_DEPTH) };
  if (fault !== undefined) throw faulty([JSON_FAULTS[fault.code]]);
  const faults: string[] = [];
  const check = new Check(faults);
  const file = check.object(value, 'the file', ['roles', 'caller_claim']);
  const callerClaim = file['caller_claim'] === undefined ? CALLER_CLAIM : file['caller_claim'];
  check.name(callerClaim, 'caller_claim');
  const entries = check
    .list(file['roles'], 'roles')
    .map((entry, at) => entryFrom(entry, `roles[${at}]`, check));
  if (faults.length > 0) throw faulty(faults);
  const read = entries as readonly Entry[];
  checkJoins(read, faults);
  if (faults.length > 0) throw faulty(faults);
  return { entries: read, callerClaim: callerClaim as string };
}

function entryFrom(value: unknown, place: string, check: Check): unknown {
  const entry = check.object(value, place, ['role', 'groups', 'organisations', 'applications']);
  if (!ROLES.some((role) => role === entry['role']))
    check.fault(`${place}.role`, `give one of ${ROLES.join(', ')}`);
  const { organisations, applications = ALL } = entry;
  if (organisations !== ALL) check.names(organisations, `${place}.organisations`, ', or "*"');
  if (applications !== ALL) check.names(applications, `${place}.applications`, ', or "*"');
  // R-2048, and what its page says.
  if (entry['role'] === 'break-glass' && (organisations !== ALL || applications !== ALL))
    check.fault(place, 'break-glass shows everything: give organisations "*" and no applications');
  return {
    role: entry['role'],
    groups: check.names(entry['groups'], `${place}.groups`),
    organisations: organisations === ALL ? undefined : organisations,
    applications: applications === ALL ? undefined : applications,
  };
}

/** A person of a group that two entries share would have neither of them. */
function checkJoins(entries: readonly Entry[], faults: string[]): void {
  entries.forEach((entry, at) => {
    const other = entries.findIndex(
      (each, index) =>
        index < at &&
        each.role === entry.role &&
        each.groups.some((group) => entry.groups.includes(group)) &&
        widens(each, entry),
    );
    if (other >= 0)
      faults.push(
        `roles[${at}]: roles[${other}] gives the same role to the same group, and joined they would permit ` +
          'more than each alone: give both the same organisations or the same applications',
      );
  });
}

/** Collects faults with their places. */
class Check {
  constructor(readonly faults: string[]) {}

  fault(place: string, message: string): void {
    this.faults.push(`${place}: ${message}`);
  }

  object(value: unknown, place: string, members: readonly string[]): Readonly<Record<string, unknown>> {
    if (!isObject(value)) {
      this.fault(place, 'give an object');
      return {};
    }
    for (const name of Object.keys(value))
      if (!members.includes(name))
        this.fault(place, `there is no member ${JSON.stringify(name.slice(0, LONGEST))}`);
    return value;
  }

  list(value: unknown, place: string): readonly unknown[] {
    if (Array.isArray(value) && value.length > 0) return value;
    this.fault(place, 'give a list that is not empty');
    return [];
  }

  name(value: unknown, place: string): void {
    if (typeof value !== 'string' || value === '' || value.length > LONGEST || value !== value.trim())
      this.fault(place, `give a text of 1 to ${LONGEST} characters, without spaces around it`);
  }

  names(value: unknown, place: string, orAll = ''): readonly unknown[] {
    if (!Array.isArray(value) || value.length === 0) {
      this.fault(place, `give a list that is not empty${orAll}`);
      return [];
    }
    value.forEach((each, at) => {
      this.name(each, `${place}[${at}]`);
      if (orAll !== '' && each === ALL)
        this.fault(`${place}[${at}]`, 'for all, give "*" in place of the list');
    });
    return value;
  }
}
