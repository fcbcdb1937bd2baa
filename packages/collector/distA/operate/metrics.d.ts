import { type MetricType } from 'prom-client';
import { type LedgerCounts } from '../ledger/ledger-counters.js';
import type { CollectorStatus, Watch } from './status.js';
import { type Facts } from './warnings.js';
type Labels = Readonly<Record<string, string>>;
interface Value {
    readonly value: number;
    readonly labels: Labels;
    /** The name on the line, when it is not that of the family. */
    readonly metricName?: string;
}
export interface Family<Scrape> {
    readonly name: string;
    readonly help: string;
    readonly type: `${MetricType}`;
    readonly values: (reading: Scrape) => Value[];
}
/** What one scrape is made of, so that its lines belong together. */
interface Scrape {
    readonly collectorStatus: CollectorStatus;
    readonly watch: Watch;
    readonly ledger: LedgerCounts;
    readonly facts: Facts;
}
export declare const FAMILIES: readonly Family<Scrape>[];
export declare class Metrics {
    #private;
    constructor(collectorStatus: CollectorStatus, watch: Watch);
    /** Every metric as it is now, and the media type of the text. */
    text(openMetrics: boolean): Promise<{
        readonly type: string;
        readonly text: string;
    }>;
}
export {};
