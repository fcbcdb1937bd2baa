/** Keys of payloads over every vault that needs no server. */
import { describe } from 'vitest';
import { runs } from '../../../../test/property-runs.js';
import { directoryVaults } from './directory-places.js';
import { keysConformance } from './keys-conformance.js';
import { modelVaults } from './model-vault.js';

describe('[R-1325] a vault', () => {
  for (const subject of [modelVaults(1), modelVaults(3), directoryVaults(1), directoryVaults(3)])
    keysConformance(subject, runs);
});
