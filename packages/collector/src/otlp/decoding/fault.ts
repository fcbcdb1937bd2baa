/** The limit of nested messages in both encodings, so that recursion cannot overflow the stack. */
export const MOST_LEVELS = 100;

/**
 * Maximum messages in a request. Two bytes can be a message, so this bounds the memory of decoded requests. A
 * full request of 64 MiB has 1.2 million, with 1 KiB of contents and 13 attributes per span.
 */
export const MOST_MESSAGES = 2 ** 21;

/** Maximum spans with their events, or log records, in a request. */
export const MOST_ITEMS = 2 ** 18;

export type DecodingFaultCode = 'malformed' | 'too_deep' | 'too_many';

/**
 * A request that is not OTLP. The message has names of OTLP fields and counts, never a name or value of the
 * body.
 */
export class DecodingFault extends Error {
  override readonly name = 'DecodingFault';
  readonly #problem: string;
  #place = '';

  constructor(
    readonly code: DecodingFaultCode,
    problem: string,
  ) {
    super(problem);
    this.#problem = problem;
  }

  /** @returns itself, with the name of the surrounding field if the position matters. */
  in(field: string): this {
    if (this.code !== 'malformed') return this;
    this.#place = `${field}${this.#place === '' ? '' : '.'}${this.#place}`;
    this.message = `${this.#place} ${this.#problem}`;
    return this;
  }
}

export function tooDeep(): DecodingFault {
  return new DecodingFault('too_deep', `the request has more than ${MOST_LEVELS} levels`);
}

export function tooMany(most: number, what: string): DecodingFault {
  return new DecodingFault('too_many', `the request has more than ${most} ${what}`);
}
