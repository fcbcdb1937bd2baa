/** The suite of vaults over a model, a directory on a disk in memory, and three of them that mirror each other. */
import { directoryVaults } from './directory-places.js';
import { modelVaults } from './model-vault.js';
import { mutantsFail, vaultConformance } from './vault-conformance.js';

for (const subject of [modelVaults(1), modelVaults(3), directoryVaults(1), directoryVaults(3)]) {
  vaultConformance(subject);
  mutantsFail(subject);
}
