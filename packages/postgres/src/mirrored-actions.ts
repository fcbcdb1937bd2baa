/**
 * What a mirror does by the actions of its log: it destroys its own keys, takes records and keys of holds, and replaces its
 * own key of names; and it reports in the access log which erasures it has followed.
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

type HoldAction = Extract<Action, { does: 'hold' }>;

/** @param unreached copies of the keys. @throws KeysUnfit where there are some. */
function assertReached(what: string, [unreached]: readonly string[]): void {
  if (unreached !== undefined)
    throw new KeysUnfit(`${what} waits for its keys: ${unreached} cannot be reached`);
}

/** How far it has come, and who it is, as `mirror.json` has it. */
interface Followed {
  readonly id: string;
  /** The sequence of the last action that it has followed. */
  followed(): number;
  /** On return it is noted. */
  follow(sequence: number): void;
}

export class MirroredActions {
  /** How many of the actions are carried out here since the start. */
  #obeyed = 0;

  constructor(
    private readonly dataDir: string,
    private readonly shared: OpenSharedStore,
    private readonly store: WritableStore,
    private readonly notes: Followed,
  ) {}

  /**
   * On return the mirror has done what the actions say that it has: its own keys are destroyed, the records and keys of holds
   * are here or are destroyed, and names in its catalogue are under a new key.
   * @throws when that cannot be done now; nothing more is copied before it is.
   */
  async obey(): Promise<void> {
    const { keys, actions } = this.store;
    const logged = actions.logged.slice(this.#obeyed);
    const last = logged.at(-1);
    if (last === undefined) return;
    const news = logged.map(({ said }) => said);
    // Keys are destroyed again with each start, because they may be of an older copy.
    const since = logged.filter(({ sequence }) => sequence > this.notes.followed()).map(({ said }) => said);
    if (keys === undefined) {
      for (const said of news) if (said.does === 'hold') await this.#takeRecord(said);
    } else {
      await this.#destroy(keys, news);
      for (const said of news) if (said.does === 'hold') await this.#takeHold(keys, said);
      if (since.some(({ does }) => does === 'erase' || does === 'rotate')) await this.#replaceNames(keys);
      // What was destroyed is gone for good with the key of its epoch.
      if (since.some(({ does }) => does === 'rotate'))
        assertReached(
          'another epoch of keys',
          await (keys.isRotating ? keys.finishRotation() : keys.rotate()),
        );
      this.#report(since);
    }
    if (since.length > 0) this.notes.follow(last.sequence);
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

  /** On return no name in the catalogue of the mirror is under another key than the newest one. */
  async #replaceNames(keys: PayloadKeys): Promise<void> {
    const { dataDir } = this;
    assertReached('another key of names', await keys.renewNames());
    const { events: log } = openStore(dataDir);
    await resealCatalogue(catalogueDirectory(dataDir), log, (error) =>
      warn(`the catalogue is made again, because its names could not be sealed again: ${reasonOf(error)}`),
    );
    await log.close();
    assertReached('another key of names', await keys.endOldNames());
  }

  /** Of one that is over by now, there is neither key nor record any more. */
  async #takeHold(keys: PayloadKeys, hold: HoldAction): Promise<void> {
    if (!this.store.actions.holds.has(hold.action)) return;
    const from = await this.shared.storedKeys();
    if (from === undefined) return;
    await keys.takeHoldKey(hold.action, from);
    // Else the release stands behind what the mirror has of the log.
    if (from.holdKey(hold.action) !== undefined) await this.#takeRecord(hold);
  }

  async #takeRecord(hold: HoldAction): Promise<void> {
    const { dataDir } = this;
    const own = recordText(dataDir, hold.action);
    if (own !== undefined && isRecord(own, hold.record)) return;
    const text = await this.shared.holdRecords.get(hold.action);
    if (text !== undefined && (await takeRecord(dataDir, hold, text))) return;
    warn(`the record of hold ${hold.action} is not in the database as it was written`);
  }

  /** In the access log, which every mirror has: certificates list from it which mirrors have followed. */
  #report(since: readonly Action[]): void {
    const erasures = new Set(since.flatMap((said) => (said.does === 'erase' ? [said.action] : [])));
    for (const erased of erasures)
      beginAccess(this.dataDir, {
        command: FOLLOWED,
        filter: { mirror: this.notes.id, erased },
        isAct: true,
      })({ events: 0, complete: true });
  }
}

function warn(what: string): void {
  process.stderr.write(`collector: warning: ${what}\n`);
}
