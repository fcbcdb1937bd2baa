/** The keys of a log in a database, opened: for readers, and for a collector among others. */
import { openKek } from '@clinical-events/collector/privacy/key-encryption-key';
import { ledgerOf } from '@clinical-events/collector/privacy/opened-vault';
import { KeysUnfit, VaultAway } from '@clinical-events/collector/privacy/key-vault';
import { PayloadKeys } from '@clinical-events/collector/privacy/payload-keys';
import { KeyReader } from '@clinical-events/collector/privacy/stored-keys';
import type { KeyPlaces } from '@clinical-events/collector/privacy/key-directories';
import type { WantedKeys } from '@clinical-events/collector/store/contract/driver';
import { parseAddress } from './address.js';
import { PostgresVault } from './postgres-vault.js';

export class ReadKeys {
  private constructor(
    private readonly vault: PostgresVault,
    readonly stored: KeyReader,
  ) {}

  /** @throws KeysUnfit when there are none, or they cannot be read. */
  static async open({ directories, kek }: KeyPlaces, logCluster: string): Promise<ReadKeys> {
    const [where = ''] = directories;
    const vault = await PostgresVault.open(parseAddress(where), logCluster);
    const reader = KeyReader.open(vault, openKek(kek));
    if (reader !== undefined) return new ReadKeys(vault, reader);
    await vault.close();
    throw new KeysUnfit(`there are no keys of payloads in ${vault.copies.join()}`);
  }

  /**
   * To be called when rows were read that are to be opened: their keys were durable before them. On return the keys are those
   * that are stored now, and no other. @throws VaultAway
   */
  async refresh(): Promise<void> {
    await this.vault.refresh();
    this.stored.readAgain();
  }

  close(): Promise<void> {
    return this.vault.close();
  }
}

/** Of a collector. Closed by closing the vault. */
export interface WrittenKeys {
  readonly keys: PayloadKeys;
  readonly vault: PostgresVault;
}

/** @throws KeysUnfit when they cannot be reached, are those of another log, or are needed and not there; KekFault. */
export async function openWrittenKeys(
  { places, ...options }: WantedKeys,
  logCluster: string,
): Promise<WrittenKeys> {
  const [where = ''] = places.directories;
  const vault = await PostgresVault.open(parseAddress(where), logCluster, { forWriting: true });
  try {
    const ledger = ledgerOf(vault);
    if (ledger !== undefined && ledger !== options.ledgerId)
      throw new KeysUnfit(`the keys in ${vault.copies.join()} are those of another log (${ledger})`);
    const keys = await PayloadKeys.open({ ...options, vault, kek: openKek(places.kek), hasPlaces: true });
    return { keys, vault };
  } catch (error) {
    await vault.close();
    if (error instanceof VaultAway) throw new KeysUnfit(error.message, { cause: error });
    throw error;
  }
}
