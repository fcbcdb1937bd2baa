/** `--auth local`: a one-time link on the terminal, for trying the viewer on one's own host. */
import { userInfo } from 'node:os';
import type { Person } from '../contract.js';
import { isSame, newToken, sha256 } from './tokens.js';

const VALID_MS = 10 * 60_000;

export class LocalLinks {
  readonly #clock: () => number;
  readonly #url: () => URL;
  #link: { readonly sha256: string; readonly until: number } | undefined;

  /** @param clock milliseconds since 1970 UTC. @param url of the viewer. */
  constructor(clock: () => number, url: () => URL) {
    this.#clock = clock;
    this.#url = url;
  }

  /** A new link, in place of the former. */
  issue(): URL {
    const token = newToken();
    this.#link = { sha256: sha256(token), until: this.#clock() + VALID_MS };
    return new URL(`/sign-in/link?token=${token}`, this.#url());
  }

  get isUsable(): boolean {
    return this.#link !== undefined && this.#clock() < this.#link.until;
  }

  /** Whether the token is that of the link, which is then used. */
  use(token: string): boolean {
    if (this.#link === undefined || !isSame(sha256(token), this.#link.sha256)) return false;
    const { isUsable } = this;
    this.#link = undefined;
    return isUsable;
  }
}

/** The user of this process. @param groups all groups of the roles file, so that each role can be tried. */
export function localPerson(groups: readonly string[]): Person {
  const name = userName();
  return { kind: 'os', name: name ?? String(process.getuid?.() ?? 0), callerId: name, groups };
}

/** Undefined for a user that the system knows only by number, as in a container. */
function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

export interface Terminal {
  readonly input: { readonly isTTY?: boolean } & Pick<NodeJS.ReadStream, 'on' | 'off' | 'unref'>;
  readonly print: (text: string) => void;
}

/**
 * Prints a one-time link, and on a terminal a new one at Enter when the former was used or expired.
 * @returns ends it.
 */
export function offerLinks(links: LocalLinks, { input, print }: Terminal): () => void {
  const offer = () => print(`Sign in within ten minutes, once: ${links.issue().href}\n`);
  const entered = () => (links.isUsable ? print('The last link can still be used.\n') : offer());
  offer();
  if (input.isTTY !== true) return () => undefined;
  print('For another link after that, press Enter.\n');
  input.on('data', entered);
  // Waiting for Enter keeps no process alive.
  input.unref();
  return () => void input.off('data', entered);
}
