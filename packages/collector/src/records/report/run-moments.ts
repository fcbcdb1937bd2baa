/**
 * By which clock a report counts, and a list looks for runs.
 *
 * received: when the collector had an event. sender: the timestamp that the event has, which is what is left of the
 * past where events came by an import; for a payload that cannot be read, when the collector had it.
 */
export const CLOCKS = ['received', 'sender'] as const;
export type Clock = (typeof CLOCKS)[number];
