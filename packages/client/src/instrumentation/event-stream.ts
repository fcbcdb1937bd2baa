/** Server-sent events (HTML Living Standard, section 9.2.6), as far as their data goes. */

export class EventStream {
  readonly #onData: (data: string) => void;
  #line = '';
  #data: string[] = [];
  #afterReturn = false;

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  /** Takes text as it comes, cut anywhere. An event is told once its empty line is there. */
  push(text: string): void {
    if (text === '') return;
    // A line end of two characters may be cut in two.
    const rest = this.#afterReturn && text.startsWith('\n') ? text.slice(1) : text;
    this.#afterReturn = text.endsWith('\r');
    const [first = '', ...others] = rest.split(/\r\n|\r|\n/);
    this.#line += first;
    for (const next of others) {
      this.#take(this.#line);
      this.#line = next;
    }
  }

  #take(line: string): void {
    if (line === '') {
      const data = this.#data;
      this.#data = [];
      if (data.length > 0) this.#onData(data.join('\n'));
    } else if (line === 'data') {
      this.#data.push('');
    } else if (line.startsWith('data:')) {
      this.#data.push(line.slice(line.startsWith('data: ') ? 6 : 5));
    }
  }
}
