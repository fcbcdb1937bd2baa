/** Capture of clinical AI events: a spool that loses nothing, and its way to the collector. */
export { SpoolClosed, SpoolFull, SpoolKeyWrong, SpoolUnwritable } from './spool/spool.js';
