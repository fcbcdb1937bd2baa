/** More messages within messages than this are a fault, in both encodings: so nothing that walks them can overflow. */
export const MOST_LEVELS = 100;

/**
 * More messages in a request than this are a fault: memory is bounded by what is made of the bytes, and two bytes can be
 * a message. A span with 40 attributes has 82.
 */
export const MOST_MESSAGES = 2 ** 21;

export type DecodingFaultCode = 'malformed' | 'too_deep' | 'too_many';

/** A request that is no OTLP. The message names fields of OTLP and counts, never a name or a value of the body. */
export class DecodingFault extends Error {
  override readonly name = 'DecodingFault';
  #place = '';

  constructor(
    readonly code: DecodingFaultCode,
    readonly problem: string,
  ) {
    super(problem);
  }

  /** @returns itself, with the name of the field around it. */
  in(field: string): this {
    this.#place = `${field}${this.#place === '' ? '' : '.'}${this.#place}`;
    this.message = `${this.#place} ${this.problem}`;
    return this;
  }
}

export function tooDeep(): DecodingFault {
  return new DecodingFault('too_deep', `the request has more than ${MOST_LEVELS} levels`);
}

export function tooMany(): DecodingFault {
  return new DecodingFault('too_many', `the request has more than ${MOST_MESSAGES} messages`);
}
