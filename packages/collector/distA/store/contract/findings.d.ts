/** What was found when a store was looked through. */
export interface StoreFinding {
    readonly severity: 'ok' | 'warning' | 'damage';
    /** What was checked, one word or two. */
    readonly subject: string;
    readonly message: string;
}
