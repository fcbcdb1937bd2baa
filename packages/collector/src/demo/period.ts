/** The stretch of time in which the runs of a demonstration happen. Instants are milliseconds since 1970 UTC. */

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export interface Period {
  readonly since: number;
  /** Nothing happens at this instant or later. */
  readonly until: number;
}
