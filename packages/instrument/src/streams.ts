/** Watches a stream while the application reads it, without reading ahead or delaying it. */
import { quietly } from './model-call.js';

export interface Watcher<T> {
  /** Called before the chunk is passed on. It must not change the chunk. */
  seen(chunk: T): void;
  /** Called once: the stream was read to its end, failed, or was cancelled by its reader. */
  over(how: 'read' | 'failed' | 'cancelled', error?: unknown): void;
}

/**
 * @returns a stream of the same chunks, which reads only when it is read: a tee would read ahead of a slow
 * reader and not pass on a cancellation. Exceptions of the watcher are ignored.
 */
export function watchedStream<T>(stream: ReadableStream<T>, watcher: Watcher<T>): ReadableStream<T> {
  // Locked only at the first read: until then the application can still get the stream itself.
  let locked: ReadableStreamDefaultReader<T> | undefined;
  const reader = () => (locked ??= stream.getReader());
  let cancelled = false;
  return new ReadableStream<T>(
    {
      async pull(controller) {
        let next: Awaited<ReturnType<ReadableStreamDefaultReader<T>['read']>>;
        try {
          next = await reader().read();
        } catch (error) {
          quietly(() => watcher.over('failed', error));
          controller.error(error);
          return;
        }
        if (cancelled) return;
        if (next.done) {
          quietly(() => watcher.over('read'));
          controller.close();
        } else {
          const { value } = next;
          quietly(() => watcher.seen(value));
          controller.enqueue(value);
        }
      },
      async cancel(reason) {
        cancelled = true;
        quietly(() => watcher.over('cancelled', reason));
        await reader().cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Reads the data of server-sent events (HTML Living Standard, section 9.2.6). */
export class EventStream {
  readonly #onData: (data: string) => void;
  #line = '';
  #data: string | undefined;
  #afterReturn = false;

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  /** @param text the next piece, cut anywhere. An event ends with an empty line. */
  push(text: string): void {
    if (text === '') return;
    if (!this.#afterReturn && !text.includes('\r')) {
      this.#lines(text.split('\n'));
      return;
    }
    // A line end of two characters may be split.
    const rest = this.#afterReturn && text.startsWith('\n') ? text.slice(1) : text;
    this.#afterReturn = text.endsWith('\r');
    this.#lines(rest.split(/\r\n|\r|\n/));
  }

  #lines(lines: readonly string[]): void {
    this.#line += lines[0] ?? '';
    for (let at = 1; at < lines.length; at++) {
      this.#take(this.#line);
      this.#line = lines[at] ?? '';
    }
  }

  /** Ends the last event: servers may leave out its empty line. */
  end(): void {
    this.#take(this.#line);
    this.#take('');
  }

  #take(line: string): void {
    if (line === '') {
      const data = this.#data;
      this.#data = undefined;
      if (data !== undefined) this.#onData(data);
    } else if (line.startsWith('data:')) {
      this.#add(line.slice(line.startsWith('data: ') ? 6 : 5));
    } else if (line === 'data') {
      this.#add('');
    }
  }

  #add(data: string): void {
    this.#data = this.#data === undefined ? data : `${this.#data}\n${data}`;
  }
}
