/** The scenarios of a demonstration. The first has single runs as its episodes: it takes those that are left over. */
import type { Scenario } from './scenario.js';
import { careAgent } from './scenarios/care-agent.js';
import { icuDeterioration } from './scenarios/icu-deterioration.js';
import { imagingTriage } from './scenarios/imaging-triage.js';
import { noShow } from './scenarios/no-show.js';
import { sepsisAbstraction } from './scenarios/sepsis-abstraction.js';

export const SCENARIOS: readonly Scenario[] = [
  icuDeterioration,
  noShow,
  imagingTriage,
  sepsisAbstraction,
  careAgent,
];
