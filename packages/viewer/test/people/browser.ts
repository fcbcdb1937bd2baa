/** The parts of a browser that logins need: cookies, redirects, and the headers of a form. */

export interface Got {
  readonly url: URL;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export class Browser {
  /** Cookies by name; as in a browser, the port does not matter. */
  readonly cookies = new Map<string, string>();
  readonly #headers: Readonly<Record<string, string>>;

  /** @param headers of each request, as a proxy would add them. */
  constructor(headers: Readonly<Record<string, string>> = {}) {
    this.#headers = headers;
  }

  async get(url: URL | string): Promise<Got> {
    return await this.#send(new URL(url), { method: 'GET' });
  }

  async post(
    url: URL | string,
    form: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Got> {
    const to = new URL(url);
    return await this.#send(to, {
      method: 'POST',
      body: new URLSearchParams(form),
      headers: { origin: to.origin, 'sec-fetch-site': 'same-origin', ...headers },
    });
  }

  async #send(url: URL, init: RequestInit): Promise<Got> {
    const response = await fetch(url, {
      ...init,
      headers: {
        ...this.#headers,
        ...(init.headers as Record<string, string> | undefined),
        cookie: [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
      },
      redirect: 'manual',
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      const [, expires] = /;\s*expires=([^;]+)/i.exec(line) ?? [];
      if (value === '' || (expires !== undefined && Date.parse(expires) < Date.now()))
        this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return { url, status: response.status, headers: response.headers, text: await response.text() };
  }

  /** Follows redirects until there is none, or until one goes to `stop`. */
  async follow(got: Got, stop?: string): Promise<Got> {
    const location = got.headers.get('location');
    if (location === null) return got;
    const next = new URL(location, got.url);
    if (next.pathname === stop) return { ...got, url: next };
    return await this.follow(await this.get(next), stop);
  }

  /**
   * Begins a login at the viewer and fills the provider's form, if it asks.
   * @returns the address of the callback, which was not opened yet.
   */
  async callbackOf(viewer: URL, login: string): Promise<URL> {
    const asked = await this.follow(await this.get(new URL('/sign-in/begin', viewer)), '/sign-in/callback');
    if (asked.url.pathname === '/sign-in/callback') return asked.url;
    const form = login === '' ? { abort: 'yes' } : { login, password: 'x' };
    return (await this.follow(await this.post(asked.url, form), '/sign-in/callback')).url;
  }

  /** Signs in at the viewer through its provider. */
  async signIn(viewer: URL, login: string): Promise<Got> {
    return await this.get(await this.callbackOf(viewer, login));
  }
}
