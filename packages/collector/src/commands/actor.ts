/** The `actor` of a line of the access log. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { sudoUser } from '../config/environment.js';
import type { Actor } from './access-lines.js';

/** A user whose name is known. */
export interface ActingUser {
  readonly name: string;
  /** Whether a login proves the name; false for a stated name. */
  readonly isProven: boolean;
}

/** The value of /proc/self/loginuid in a process without a login. */
const NO_LOGIN = 0xffff_ffff;
/** Longer than any user name; users can set the variable to any text. */
const LONGEST_NAME = 256;
/**
 * Looks a user up in every directory that the host is joined to. Absolute, so that PATH cannot replace it.
 */
const GETENT = '/usr/bin/getent';
const ANSWERED_MS = 5000;

/** The login user; undefined where the system knows no login, as in a container. */
export function actingUser(): ActingUser | undefined {
  const uid = loginUser();
  return uid === undefined ? undefined : { name: nameOf(uid), isProven: true };
}

/**
 * The members of a line that identify the actor: `actor`, and the facts from which it was derived.
 * @param stated the name given to the command.
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

/** The user of this process. In a container the user id may have no name. */
export function processUser(): { readonly uid: number; readonly user: string | null } {
  try {
    const { uid, username } = os.userInfo();
    return { uid, user: username };
  } catch {
    return { uid: process.getuid?.() ?? -1, user: null };
  }
}

/**
 * The user of the login session, which sudo and su do not change (proc(5), loginuid); undefined without a
 * session.
 */
function loginUser(): number | undefined {
  try {
    const uid = Number(fs.readFileSync('/proc/self/loginuid', 'latin1'));
    return Number.isSafeInteger(uid) && uid !== NO_LOGIN ? uid : undefined;
  } catch {
    return undefined;
  }
}

/** The user's name, or its number if the system has no name for it. */
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
