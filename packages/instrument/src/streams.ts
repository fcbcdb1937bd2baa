/** A stream seen while it passes: chunk by chunk as it comes, none early, none late, and none read for its own sake. */
import { quietly } from './model-call.js';

export interface Watcher<T> {
  /** Before the chunk is passed on, and only to look at it. */
  seen(chunk: T): void;
  /** It was read to its end; it failed; or its reader wanted no more. Called once. */
  over(how: 'read' | 'failed' | 'cancelled', error?: unknown): void;
}

/**
 * Gives what the stream gives, and asks it only when it is asked itself: a tee would read ahead of a slow reader, and
 * would not pass a cancellation on. What a watcher throws goes nowhere.
 */
export function watchedStream<T>(stream: ReadableStream<T>, watcher: Watcher<T>): ReadableStream<T> {
  // Not locked before someone reads: until then the stream can still be given to the application as it is.
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

/* Server-sent events (HTML Living Standard, section 9.2.6), as far as their data goes. */

export class EventStream {
  readonly #onData: (data: string) => void;
  #line = '';
  #data: string | undefined;
  #afterReturn = false;

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  /** Takes text as it comes, cut anywhere. An event is passed on once its empty line is there. */
  push(text: string): void {
    if (text === '') return;
    if (!this.#afterReturn && !text.includes('\r')) {
      this.#lines(text.split('\n'));
      return;
    }
    // A line end of two characters may be cut in two.
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

  /** The text is over: servers leave out the last empty line. */
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
