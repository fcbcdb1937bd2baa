/**
 * Cross-origin resource sharing (the Fetch standard): which pages' scripts may send events and see the answer.
 *
 * Off unless an origin is named. An API key in a page is in the hands of everybody who can open the page, so each
 * origin is named in full: there is no `*`, and no pattern.
 */
import type { IncomingMessage } from 'node:http';

/** The list of origins cannot be meant. */
export class OriginsInvalid extends Error {
  override name = 'OriginsInvalid';
}

export class AllowedOrigins {
  readonly #origins: ReadonlySet<string>;

  /**
   * @param text origins such as `https://app.example.org` with commas between them; none when empty.
   * @throws {@link OriginsInvalid}
   */
  constructor(text: string) {
    this.#origins = new Set(text === '' ? [] : text.split(',').map((item) => origin(item.trim())));
  }

  allows(origin: string): boolean {
    return this.#origins.has(origin);
  }

  /** The origin that asks whether it may send an event, and may; undefined for any other request. */
  preflightOf({ method, rawHeaders }: Pick<IncomingMessage, 'method' | 'rawHeaders'>): string | undefined {
    if (method !== 'OPTIONS' || this.#origins.size === 0) return undefined;
    let asking: string | undefined;
    let asks = false;
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      switch (rawHeaders[i]?.toLowerCase()) {
        case 'origin':
          if (asking !== undefined) return undefined;
          asking = rawHeaders[i + 1];
          break;
        case 'access-control-request-method':
          asks = rawHeaders[i + 1] === 'POST';
          break;
        // No browser sends a body with the question, and there is no key that one could be read by.
        case 'content-length':
        case 'transfer-encoding':
          return undefined;
      }
    }
    return asks && asking !== undefined && this.allows(asking) ? asking : undefined;
  }
}

function origin(item: string): string {
  if (item.includes('*')) throw new OriginsInvalid(`${JSON.stringify(item)} is no origin: name each in full`);
  const url = URL.canParse(item) ? new URL(item) : undefined;
  const ofPages = url?.protocol === 'https:' || url?.protocol === 'http:';
  // Compared as a browser spells it: without a path, a default port or capitals.
  if (ofPages && url.origin === item) return item;
  const guess = ofPages ? `; did you mean ${JSON.stringify(url.origin)}?` : '';
  throw new OriginsInvalid(`${JSON.stringify(item)} is no origin such as https://app.example.org${guess}`);
}
