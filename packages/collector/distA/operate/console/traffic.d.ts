import { type Element, type View } from './elements.js';
export declare const SPAN_SECONDS = 300;
/** Of one second. */
export interface Step {
    /** Seconds between its end and the end of the chart. */
    readonly ago: number;
    /** How long it was. */
    readonly seconds: number;
    readonly value: number | null;
}
interface Series {
    readonly className: string;
    /** An area stands on the axis, a line does not. */
    readonly area: boolean;
    readonly steps: readonly Step[];
}
export interface Plot {
    /** What it shows, for those who do not see it. */
    readonly label: string;
    readonly series: readonly Series[];
    readonly format: (value: number) => string;
    /** The scale does not end below this. */
    readonly least: number;
    /** Seconds before the end that are marked. */
    readonly marked: number | undefined;
}
export declare function plot({ label, series, format, least, marked }: Plot): Element;
/** The next of 1, 2, 4, 6, 8 and 10 times a power of ten: half of each is a short number too. */
export declare function roundUp(value: number): number;
export declare function traffic(view: View): Element;
export {};
