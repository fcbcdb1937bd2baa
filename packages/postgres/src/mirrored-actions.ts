/**
 * Applies the actions of a log to its mirror: destroys the mirror's keys, copies records and keys of holds,
 * replaces the mirror's key of names, and reports in the access log which erasures the mirror has followed.
 */
import { catalogueDirectory, resealCatalogue } from '@clinical-events/collector/catalogue/catalogue';
import { FOLLOWED } from '@clinical-events/collector/commands/access-lines';
import { beginAccess } from '@clinical-events/collector/commands/access-log';
import { reasonOf } from '@clinical-events/collector/commands/exit-codes';
import {
  dropRecord,
  isRecord,
  recordText,
  takeRecord,
} from '@clinical-events/collector/commands/lifecycle/holds';
import { type Action, actionFields } from '@clinical-events/collector/privacy/actions';
import { KeysUnfit } from '@clinical-events/collector/privacy/key-vault';
import type { PayloadKeys } from '@clinical-events/collector/privacy/payload-keys';
import type { OpenSharedStore } from '@clinical-events/collector/store/contract/opened';
import { openStore } from '@clinical-events/collector/store/open-to-read';
import type { WritableStore } from '@clinical-events/collector/store/open-to-write';
import { type MirrorNote, writeMirrorNote } from '@clinical-events/collector/tree/state-files';

type HoldAction = Extract<Action, { does: 'hold' }>;

/** @throws KeysUnfit if copies of the keys were not reached. */
function assertReached(what: string, [unreached]: readonly string[]): void {
  if (unreached !== undefined)
    throw new KeysUnfit(`${what} waits for its keys: ${unreached} cannot be reached`);
}

/** Identity and progress of the mirror in `mirror.json`. */
export class MirrorNotes {
  constructor(
    private readonly dataDir: string,
    private note: MirrorNote,
  ) {}

  get current(): MirrorNote {
    return this.note;
  }

  /** On return the changed members are stored. */
  update(changed: Partial<MirrorNote>): void {
    this.note = { ...this.note, ...changed };
    writeMirrorNote(this.dataDir, this.note);
  }
}

export class MirroredActions {
  /** Number of actions that were applied since the start. */
  #obeyed = 0;

  constructor(
    private readonly dataDir: string,
    private readonly shared: OpenSharedStore,
    private readonly store: WritableStore,
    private readonly notes: MirrorNotes,
  ) {}

  /**
   * On return all actions in the mirror are applied: its own keys are destroyed, records and keys of holds
   * are copied or destroyed, and names in its catalogue are encrypted by a new key.
   * @throws if that is impossible now; the mirror copies no further entry before it is done.
   */
  async obey(): Promise<void> {
    const { keys, actions } = this.store;
    const logged = actions.logged.slice(this.#obeyed);
    const last = logged.at(-1);
    if (last === undefined) return;
    const news = logged.map(({ said }) => said);
    // Each start destroys keys again, because they may come from an older copy.
    const { followed } = this.notes.current;
    const since = logged.filter(({ sequence }) => sequence > followed).map(({ said }) => said);
    if (keys === undefined) {
      for (const said of news) if (said.does === 'hold') await this.#takeRecord(said);
    } else {
      await this.#destroy(keys, news);
      for (const said of news) if (said.does === 'hold') await this.#takeHold(keys, said);
      if (since.some(({ does }) => does === 'erase' || does === 'rotate')) await this.#replaceNames(keys);
      // Destroyed keys are unrecoverable once the key of their epoch is replaced.
      if (since.some(({ does }) => does === 'rotate'))
        assertReached(
          'another epoch of keys',
          await (keys.isRotating ? keys.finishRotation() : keys.rotate()),
        );
      this.#report(since);
    }
    if (since.length > 0) this.notes.update({ followed: last.sequence });
    this.#obeyed = actions.logged.length;
  }

  async #destroy(keys: PayloadKeys, news: readonly Action[]): Promise<void> {
    for (const said of news) {
      if (said.does === 'erase' || said.does === 'release')
        assertReached('an erasure', await keys.noteAction(actionFields(said)));
      if (said.does === 'release') {
        assertReached('the release of a hold', await keys.destroyHold(said.hold));
        dropRecord(this.dataDir, 'holds', said.hold);
      }
    }
    const taken = news.flatMap((said) => (said.does === 'erase' ? said.keys : []));
    assertReached('an erasure', await keys.destroy(taken));
  }

  /** On return all names in the mirror's catalogue are encrypted by the newest key. */
  async #replaceNames(keys: PayloadKeys): Promise<void> {
    const { dataDir } = this;
    assertReached('another key of names', await keys.renewNames());
    const { events: log } = openStore(dataDir);
    await resealCatalogue(catalogueDirectory(dataDir), log, (error) =>
      warn(`the catalogue is rebuilt, because its names could not be encrypted again: ${reasonOf(error)}`),
    );
    await log.close();
    assertReached('another key of names', await keys.endOldNames());
  }

  /** Copies key and record of a hold; a released hold has neither. */
  async #takeHold(keys: PayloadKeys, hold: HoldAction): Promise<void> {
    if (!this.store.actions.holds.has(hold.action)) return;
    const from = await this.shared.storedKeys();
    if (from === undefined) return;
    await keys.takeHoldKey(hold.action, from);
    // Without a key, the release is in a part of the log that the mirror does not have yet.
    if (from.holdKey(hold.action) !== undefined) await this.#takeRecord(hold);
  }

  async #takeRecord(hold: HoldAction): Promise<void> {
    const { dataDir } = this;
    const own = recordText(dataDir, hold.action);
    if (own !== undefined && isRecord(own, hold.record)) return;
    const text = await this.shared.holdRecords.get(hold.action);
    if (text !== undefined && (await takeRecord(dataDir, hold, text))) return;
    warn(`the record of hold ${hold.action} in the database is missing or altered`);
  }

  /** Adds lines to the access log, from which certificates list the mirrors that have followed. */
  #report(since: readonly Action[]): void {
    const erasures = new Set(since.flatMap((said) => (said.does === 'erase' ? [said.action] : [])));
    for (const erased of erasures)
      beginAccess(this.dataDir, {
        command: FOLLOWED,
        filter: { mirror: this.notes.current.id, erased },
        isAct: true,
      })({ events: 0, complete: true });
  }
}

function warn(what: string): void {
  process.stderr.write(`collector: warning: ${what}\n`);
}
