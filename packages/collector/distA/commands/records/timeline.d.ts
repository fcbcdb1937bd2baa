/** One record as text for a person: who and what at the top, then what happened, when, in canonical order. */
import type { ClinicalRecord } from '@clinical-events/protocol';
/** How wide a timeline may be on standard output. */
export declare function outputColumns(): number;
/** As {@link outputColumns}; where a pager reads, as wide as the terminal that it is on. */
export declare function pagerColumns(): number;
/** A line an event. @param columns how wide the terminal is. */
export declare function timeline(record: ClinicalRecord, columns: number): string;
/** Every member that the events have, whole, wrapped at so many columns. Words that are longer stay whole. */
export declare function fullTimeline(record: ClinicalRecord, columns: number): string;
