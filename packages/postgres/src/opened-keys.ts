/** Opens the payload keys of a log in a database: for readers, and for collectors, which share them. */
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

  /** @throws KeysUnfit if there are no keys, or they cannot be read. */
  static async open({ directories, kek }: KeyPlaces, logCluster: string): Promise<ReadKeys> {
    const [where = ''] = directories;
    const vault = await PostgresVault.open(parseAddress(where), logCluster);
    const reader = KeyReader.open(vault, openKek(kek));
    if (reader !== undefined) return new ReadKeys(vault, reader);
    await vault.close();
    throw new KeysUnfit(`there are no payload keys in ${vault.copies.join()}`);
  }

  /**
   * Reads the stored keys again. Call it after reading rows, whose keys were durable before them.
   * @throws VaultAway
   */
  async refresh(): Promise<void> {
    await this.vault.refresh();
    this.stored.readAgain();
  }

  close(): Promise<void> {
    return this.vault.close();
  }
}

/** The keys of a collector. Closing the vault closes them. */
export interface WrittenKeys {
  readonly keys: PayloadKeys;
  readonly vault: PostgresVault;
}

/**
 * @throws KeysUnfit if the keys are unreachable, belong to another log, or are needed and missing; KekFault.
 */
export async function openWrittenKeys(
  { places, ...options }: WantedKeys,
  logCluster: string,
): Promise<WrittenKeys> {
  const [where = ''] = places.directories;
  const vault = await PostgresVault.open(parseAddress(where), logCluster, { forWriting: true });
  try {
    const ledger = ledgerOf(vault);
    if (ledger !== undefined && ledger !== options.ledgerId)
      throw new KeysUnfit(`the keys in ${vault.copies.join()} belong to another log (${ledger})`);
    const keys = await PayloadKeys.open({ ...options, vault, kek: openKek(places.kek), hasPlaces: true });
    return { keys, vault };
  } catch (error) {
    await vault.close();
    if (error instanceof VaultAway) throw new KeysUnfit(error.message, { cause: error });
    throw error;
  }
}
