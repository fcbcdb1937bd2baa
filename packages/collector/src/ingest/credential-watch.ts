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
  /** To be used from now on, for new connections. */
  readonly onChange: (credentials: Credentials) => void;
  /** The files changed and cannot be used. Called once for each change. */
  readonly onTrouble: (reason: string) => void;
  /** Between two looks, in milliseconds; 2000 when not given. */
  readonly pollMs?: number;
}

export class CredentialWatch {
  readonly #options: CredentialWatchOptions;
  /** The files as they were when last tried. */
  #tried: string;
  /** The files as they were at the last look. */
  #seen: string;
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(options: CredentialWatchOptions) {
    this.#options = options;
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

  /** Reads the files now, changed or not. On return they are in use, or `onTrouble` was told why not. */
  reload(): Promise<void> {
    return this.#queue(() => this.#load());
  }

  #queue(work: () => Promise<void>): Promise<void> {
    return (this.#work = this.#work.then(work, work));
  }

  async #look(): Promise<void> {
    const states = await fileStates(this.#options.files);
    const settled = states === this.#seen;
    this.#seen = states;
    // Whoever renews writes one file after the other. What stays as it is from one look to the next is taken as whole.
    if (settled && states !== this.#tried) await this.#load();
  }

  async #load(): Promise<void> {
    const { files, onChange, onTrouble } = this.#options;
    try {
      const credentials = await readCredentials(files);
      this.#tried = credentials.fileStates;
      // They were replaced while they were read: the next look reads them again.
      if ((await fileStates(files)) !== this.#tried) return;
      const expired = credentials.certificate.validToDate.getTime() <= Date.now();
      if (expired) throw new CredentialsUnusable(`the certificate in ${files.cert} has expired`);
      onChange(credentials);
    } catch (error) {
      this.#tried = await fileStates(files);
      onTrouble(error instanceof Error ? error.message : String(error));
    }
  }
}
