/** What is said of a log in a database to the people who look after it. */

/* What no process of a log has stored in its database. */

export interface QuarantineItem {
  /** `lane`: one that was taken out of those that are looked at, and is put back. */
  readonly kind: 'batch' | 'ids' | 'place' | 'lane';
  readonly lane: number;
  readonly batch: number;
  readonly entries: number;
  /** Ids of events that are freed. */
  readonly ids: number;
  readonly why: string;
}

export interface Quarantine {
  readonly items: QuarantineItem[];
  /** What is wrong besides, and is not made good by moving anything. */
  readonly gaps: string[];
  /** By which the log says what was moved; undefined where nothing was. */
  readonly action: string | undefined;
}

/** What was found when a store was looked through. */
export interface StoreFinding {
  readonly severity: 'ok' | 'warning' | 'damage';
  /** What was checked, one word or two. */
  readonly subject: string;
  readonly message: string;
}
