/** The style sheet. Colours have a contrast of 4.5 at least in both themes, also where values are old. */
export declare const STYLE: string;
