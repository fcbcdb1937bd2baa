import { fork, type ChildProcess } from 'node:child_process';
import { SinkFilesError, type FileTail, type FoundFile, type SinkFiles } from './sink-files.js';
import type { SinkFilesReply, SinkFilesRequest } from './sink-files-process.js';

/** The compiled process, also when the sources are run as they are (Vitest): processes start from files. */
const PROCESS = new URL(
  'sink-files-process.js',
  import.meta.url.replace(/\/src\/(?=transparency\/)/, '/dist/'),
);
/** Old-space of the process, MiB. It holds one note at a time. */
const HEAP_MIB = 64;

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: SinkFilesError) => void;
  readonly onProgress: () => void;
}

/**
 * {@link SinkFiles} in a process of their own, which is started at the first call, and again when it has ended. A
 * call that hangs is pending until it returns, or until `kill`. Keeps nobody's event loop alive.
 */
export class RemoteSinkFiles implements SinkFiles {
  readonly #waiting = new Map<number, Waiting>();
  #child: ChildProcess | undefined;
  #calls = 0;
  #killed = false;

  async last(
    directory: string,
    pattern: string,
    count: number,
    onProgress: () => void,
  ): Promise<FoundFile[]> {
    return (await this.#call('last', [directory, pattern, count], onProgress)) as FoundFile[];
  }

  async create(file: string, bytes: Uint8Array): Promise<Uint8Array | undefined> {
    return (await this.#call('create', [file, bytes])) as Uint8Array | undefined;
  }

  async append(file: string, bytes: Uint8Array, mayCreate: boolean): Promise<void> {
    await this.#call('append', [file, bytes, mayCreate]);
  }

  async tail(file: string, length: number): Promise<FileTail | undefined> {
    return (await this.#call('tail', [file, length])) as FileTail | undefined;
  }

  /** Ends the process, whatever it is at; all calls reject, these and later ones. */
  kill(): void {
    this.#killed = true;
    this.#child?.kill('SIGKILL');
    this.#ended(this.#child);
  }

  /** For tests: the process, when there is one. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  #call(
    call: keyof SinkFiles,
    values: unknown[],
    onProgress: () => void = () => undefined,
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#killed) {
        reject(gone());
        return;
      }
      const child = (this.#child ??= this.#start());
      const id = this.#calls++;
      this.#waiting.set(id, { resolve, reject, onProgress });
      const request: SinkFilesRequest = { id, call, values };
      child.send(request, (error) => {
        if (error) this.#ended(child);
      });
    });
  }

  #start(): ChildProcess {
    const child = fork(PROCESS, {
      execArgv: [`--max-old-space-size=${HEAP_MIB}`],
      // Bytes as bytes.
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    child.on('message', (reply: SinkFilesReply) => this.#take(reply));
    for (const end of ['error', 'exit', 'disconnect'] as const) child.on(end, () => this.#ended(child));
    child.unref();
    child.channel?.unref();
    return child;
  }

  #take(reply: SinkFilesReply): void {
    const waiting = this.#waiting.get(reply.id);
    if (reply.kind === 'progress') {
      waiting?.onProgress();
      return;
    }
    this.#waiting.delete(reply.id);
    if (reply.kind === 'done') waiting?.resolve(reply.value);
    else waiting?.reject(new SinkFilesError(reply.code, reply.message));
  }

  #ended(child: ChildProcess | undefined): void {
    if (child !== this.#child) return;
    this.#child = undefined;
    child?.kill('SIGKILL');
    for (const { reject } of this.#waiting.values()) reject(gone());
    this.#waiting.clear();
  }
}

function gone(): SinkFilesError {
  return new SinkFilesError('EPIPE', 'the process for directories and files has ended');
}
