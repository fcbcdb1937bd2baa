/** The test. Both are valid JSON texts in UTF-8 without repeated member names; anything else may be called unequal. */
export declare function sameContent(a: Uint8Array, b: Uint8Array): boolean;
