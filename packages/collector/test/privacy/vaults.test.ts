/** The suite of vaults over a model of one copy, and of three. */
import { modelVaults } from './model-vault.js';
import { mutantsFail, vaultConformance } from './vault-conformance.js';

for (const subject of [modelVaults(1), modelVaults(3)]) {
  vaultConformance(subject);
  mutantsFail(subject);
}
