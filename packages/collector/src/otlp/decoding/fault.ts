/** Messages within each other: more are a fault in both encodings, so that what walks them cannot overflow the stack. */
export const MOST_LEVELS = 100;

/**
 * More messages in a request than this are a fault: two bytes can be a message, and what is made of them is bounded here.
 * A full request of 64 MiB has 1.2 million, where each span has 1 KiB of contents and 13 attributes.
 */
export const MOST_MESSAGES = 2 ** 21;

/** Spans with their events, or log records, of a request. */
export const MOST_ITEMS = 2 ** 18;

export type DecodingFaultCode = 'malformed' | 'too_deep' | 'too_many';

/** A request that is no OTLP. The message names fields of OTLP and counts, never a name or a value of the body. */
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

  /** @returns itself, with the name of the field around it where the place matters. */
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
