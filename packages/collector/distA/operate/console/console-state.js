/**
 * What the console shows, as `GET /console/state.json` gives it. Counts, instants and states only; the names of kinds
 * and codes are those of the protocol, keys are told by their ids, and no event and nobody's name is in it.
 *
 * Instants are RFC 3339 in UTC; times in milliseconds unless the name says otherwise; null is what is not known.
 */
export {};
