/** `--auth local`: a one-time link on the terminal, for trying the viewer on one's own host. */
import { userInfo } from 'node:os';
import type { Person } from '../contract.js';
import { isSame, newToken, sha256 } from './sessions.js';

const VALID_MS = 10 * 60_000;

export class LocalLinks {
  readonly #clock: () => number;
  #link: { readonly sha256: string; readonly until: number } | undefined;

  /** @param clock milliseconds since 1970 UTC. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** A new link, in place of the former. @param url of the viewer. */
  issue(url: URL): URL {
    const token = newToken();
    this.#link = { sha256: sha256(token), until: this.#clock() + VALID_MS };
    return new URL(`/sign-in/link?token=${token}`, url);
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
  const { username } = userInfo();
  return { kind: 'os', name: username, callerId: username, groups };
}

/**
 * Prints a one-time link, and on a terminal a new one at Enter when the former was used or expired.
 * @returns ends it.
 */
export function offerLinks(
  links: { localLink(): URL | undefined; readonly hasUsableLink: boolean },
  input: { readonly isTTY?: boolean } & Pick<NodeJS.ReadStream, 'on' | 'off' | 'unref'>,
  print: (text: string) => void,
): () => void {
  const offer = () => {
    const link = links.localLink();
    if (link !== undefined) print(`Sign in within ten minutes, once: ${link.href}\n`);
  };
  const entered = () => {
    if (links.hasUsableLink) print('The last link can still be used.\n');
    else offer();
  };
  offer();
  if (input.isTTY !== true) return () => undefined;
  print('For another link after that, press Enter.\n');
  input.on('data', entered);
  // Waiting for Enter keeps no process alive.
  input.unref();
  return () => input.off('data', entered);
}
