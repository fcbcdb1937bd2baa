/**
 * What became of an event. `durable`: it is in the spool, as durable as the spool is. `held`: sampling did not choose
 * its run, and it waits in memory in case the run turns out to be risky. `left out`: sampling left it out.
 */
export type Fate = 'durable' | 'held' | 'left out';

/**
 * An event on its way into the spool. May be awaited, and need not be: what nobody awaits never ends the host
 * application as an unhandled rejection, and a refusal is told to `onRefused` in either case.
 */
export class Captured implements PromiseLike<Fate> {
  /** Known at once; never used again, whatever becomes of the event. */
  readonly eventId: string;
  readonly #fate: Promise<Fate>;

  /** @param fate whose rejection somebody else takes notice of too; events may share one. */
  constructor(eventId: string, fate: Promise<Fate>) {
    this.eventId = eventId;
    this.#fate = fate;
  }

  /**
   * Resolves once the event is durable or sampling has decided about it.
   * Rejects with EventInvalid, ContentNotStored, ClientClosed, SpoolFull or SpoolUnwritable; then it is not captured,
   * unless the `uncertain` of SpoolUnwritable says that it may be.
   */
  then<Done = Fate, Failed = never>(
    onDone?: ((fate: Fate) => Done | PromiseLike<Done>) | null,
    onFailed?: ((error: unknown) => Failed | PromiseLike<Failed>) | null,
  ): Promise<Done | Failed> {
    return this.#fate.then(onDone, onFailed);
  }
}
