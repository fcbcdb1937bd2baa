/** Who acts on this host: the `actor` of a line of the access log. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { sudoUser } from '../config/environment.js';

/** The members are a promise to programs (docs/INTEGRITY.md, "The access log"). */
export interface Actor {
  /** Where the name is from: this operating system, a provider of OpenID Connect, a proxy. */
  readonly kind: (typeof KINDS)[number];
  /** The user who logged in where there is one, otherwise a stated name, the user who called sudo, or the process's. */
  readonly name: string;
  /** Of a person of the viewer; on the host it is the rights of the system's user that count. */
  readonly role?: string;
  /** Whether the system knows by a login that it is this one. */
  readonly proven?: boolean;
  /** The name that was stated beside a proven one. */
  readonly stated?: string;
}

/** A user whose name is known. */
export interface ActingUser {
  readonly name: string;
  /** Whether the system knows by a login that it is this one; false of a name that was only stated. */
  readonly isProven: boolean;
}

const KINDS = ['os', 'oidc', 'proxy'] as const;
const NO_LOGIN = 0xffff_ffff;
/** No system has longer names; any user may set the variable. */
const LONGEST_NAME = 256;
/** Looks in all directories of users that the host is joined to. An absolute path, which PATH cannot replace. */
const GETENT = '/usr/bin/getent';
const ANSWERED_MS = 5000;

/** The user who logged in; undefined where the system knows of no login, as in a container. */
export function actingUser(): ActingUser | undefined {
  const uid = loginUser();
  return uid === undefined ? undefined : { name: nameOf(uid), isProven: true };
}

/**
 * What a line says of who acts: `actor`, and beside it what that was concluded from.
 * @param stated the name that the command was given.
 */
export function whoActs(stated?: string): { readonly actor: Actor } & Readonly<Record<string, unknown>> {
  const { uid, user } = processUser();
  const [login, sudo] = [loginUser(), sudoUser()?.slice(0, LONGEST_NAME)];
  const by = stated?.slice(0, LONGEST_NAME);
  const actor: Actor =
    login === undefined
      ? { kind: 'os', name: by ?? sudo ?? user ?? String(uid), proven: false }
      : { kind: 'os', name: nameOf(login), proven: true, ...(by !== undefined && { stated: by }) };
  return {
    ...{ actor, uid, user },
    ...(login !== undefined && { login_uid: login }),
    ...(sudo !== undefined && { sudo_user: sudo }),
  };
}

export function isActor(value: unknown): value is Actor {
  if (typeof value !== 'object' || value === null) return false;
  const { kind, name, role, proven, stated } = value as Record<string, unknown>;
  return (
    KINDS.some((each) => each === kind) &&
    typeof name === 'string' &&
    [role, stated].every((each) => each === undefined || typeof each === 'string') &&
    (proven === undefined || typeof proven === 'boolean')
  );
}

/** Of this process. One that the system has no name for has a number all the same, as in a container. */
function processUser(): { readonly uid: number; readonly user: string | null } {
  try {
    const { uid, username } = os.userInfo();
    return { uid, user: username };
  } catch {
    return { uid: process.getuid?.() ?? -1, user: null };
  }
}

/** The user of the session, which sudo and su do not change (Linux audit, proc(5)); undefined without a session. */
function loginUser(): number | undefined {
  try {
    const uid = Number(fs.readFileSync('/proc/self/loginuid', 'latin1'));
    return Number.isSafeInteger(uid) && uid !== NO_LOGIN ? uid : undefined;
  } catch {
    return undefined;
  }
}

/** The number where the system has no name for it. */
function nameOf(uid: number): string {
  const { uid: own, user } = processUser();
  if (own === uid && user !== null) return user;
  try {
    const text = execFileSync(GETENT, ['passwd', String(uid)], {
      ...{ encoding: 'utf8', env: {}, timeout: ANSWERED_MS, stdio: ['ignore', 'pipe', 'ignore'] },
    });
    return text.split(':', 1)[0] || String(uid);
  } catch {
    return String(uid);
  }
}
