/** Reads spans of generative AI in the dialects of all known emitters: pure, without dependencies. */
export { type Fields, isObject } from '../values.js';
export * from './answer.js';
export {
  type Asked,
  askedOf,
  conversationOf,
  executedOf,
  firstName,
  nameOf,
  queryOf,
  userOf,
} from './asked.js';
export { Findings, type Kind, type SpanData } from './dialect.js';
export { findingsOf, identify, type Known } from './span.js';
export { countTooHigh, inputOf, parsed, parsedContent, wordsOf } from './values.js';
export { evaluationOf, takeChat } from './genai.js';
