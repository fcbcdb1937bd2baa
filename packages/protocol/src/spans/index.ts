/** What spans of generative AI say, under the names of every emitter that is known here: pure, without a dependency. */
export * from './answer.js';
export { Findings, type Kind, type SpanData } from './dialect.js';
export { findingsOf, identify, type Known } from './span.js';
export { inputOf, parsed, wordsOf } from './values.js';
