/**
 * Follows the files of the certificate while the collector runs.
 *
 * What does not fit is kept out, and what was in use stays in use: a renewal that went wrong must not end a service
 * that still has a good certificate. By polling, because watchers miss what happens behind symbolic links and on
 * network file systems.
 */
import {
  CredentialsUnusable,
  fileStates,
  readCredentials,
  type CredentialFiles,
  type Credentials,
} from './credentials.js';

export interface CredentialWatchOptions {
  readonly files: CredentialFiles;
  /** What is in use. */
  readonly credentials: Credentials;
  /** To be used from now on, for new connections. Not called when the files say what they said before. */
  readonly onChange: (credentials: Credentials) => void;
  /** The files changed and cannot be used. Called once for each change. */
  readonly onTrouble: (reason: string) => void;
  /** Between two looks, in milliseconds; 2000 when not given. */
  readonly pollMs?: number;
}

export class CredentialWatch {
  readonly #options: CredentialWatchOptions;
  #used: Credentials;
  /** The files as they were when last tried. */
  #tried: string;
  /** The files as they were at the last look. */
  #seen: string;
  /** When what was last tried is to be tried again; it was too early for it. Milliseconds since 1970 UTC. */
  #notBefore = Infinity;
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<unknown> = Promise.resolve();

  constructor(options: CredentialWatchOptions) {
    this.#options = options;
    this.#used = options.credentials;
    this.#tried = this.#seen = options.credentials.fileStates;
  }

  /** Without keeping the process alive for it. */
  start(): void {
    let looking = false;
    this.#timer ??= setInterval(() => {
      // A file system that hangs must not gather looks.
      if (looking) return;
      looking = true;
      const done = (): void => {
        looking = false;
      };
      this.#queue(() => this.#look()).then(done, done);
    }, this.#options.pollMs ?? 2000).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /**
   * Reads the files now, changed or not.
   * @returns whether they are in use; when not, `onTrouble` was told why, or they are being changed and are read again.
   */
  reload(): Promise<boolean> {
    return this.#queue(() => this.#load());
  }

  #queue<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = this.#work.then(work, work);
    this.#work = done;
    return done;
  }

  async #look(): Promise<void> {
    const states = await fileStates(this.#options.files);
    const settled = states === this.#seen;
    this.#seen = states;
    // Whoever renews writes one file after the other. What stays as it is from one look to the next is taken as whole.
    if (settled && (states !== this.#tried || Date.now() >= this.#notBefore)) await this.#load();
  }

  async #load(): Promise<boolean> {
    const { files, onChange, onTrouble } = this.#options;
    this.#notBefore = Infinity;
    try {
      const credentials = await readCredentials(files);
      this.#tried = credentials.fileStates;
      // They were replaced while they were read: the next look reads them again.
      if ((await fileStates(files)) !== this.#tried) return false;
      const { validFromDate, validToDate } = credentials.certificate;
      const now = Date.now();
      if (validToDate.getTime() <= now) {
        throw unusable(`the certificate in ${files.cert} has expired`);
      }
      if (validFromDate.getTime() > now) {
        this.#notBefore = validFromDate.getTime();
        throw unusable(
          `the certificate in ${files.cert} is not valid before ${validFromDate.toISOString()}; it is taken then`,
        );
      }
      if (!isSame(credentials, this.#used)) onChange(credentials);
      this.#used = credentials;
      return true;
    } catch (error) {
      this.#tried = await fileStates(files);
      onTrouble(error instanceof Error ? error.message : String(error));
      return false;
    }
  }
}

function unusable(message: string): CredentialsUnusable {
  return new CredentialsUnusable([{ file: 'cert', message }]);
}

function isSame(one: Credentials, other: Credentials): boolean {
  const sameAuthorities =
    one.clientCa === undefined || other.clientCa === undefined
      ? one.clientCa === other.clientCa
      : one.clientCa.equals(other.clientCa);
  return one.cert.equals(other.cert) && one.key.equals(other.key) && sameAuthorities;
}
