/** What spans of generative AI say, under the names of every emitter that is known here: pure, without a dependency. */
export { type Fields, isObject } from '../objects.js';
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
