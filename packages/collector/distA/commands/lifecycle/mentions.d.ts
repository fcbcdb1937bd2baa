/**
 * Whether ids of a person stand in a payload, whomever it is about. Both are compared after NFKC, case folding and with white
 * space collapsed; escapes of JSON are decoded. An id stands for itself: no letter, digit, - or _ on either side.
 */
/** What the search does not find, for whoever decides by it. */
export declare const NOT_FOUND_BY_SEARCH = "a search does not find an id that is misspelt, abbreviated, split over several fields, or inside encoded data (base64, images)";
export declare class Mentions {
    #private;
    constructor(ids: readonly string[]);
    /** @param body JSON. */
    areIn(body: Buffer): boolean;
}
