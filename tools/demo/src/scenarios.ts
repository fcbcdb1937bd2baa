/** The scenarios of a demonstration. The first has episodes of one run, and takes the remaining runs. */
import careAgent from './scenarios/care-agent.json' with { type: 'json' };
import icuDeterioration from './scenarios/icu-deterioration.json' with { type: 'json' };
import imagingTriage from './scenarios/imaging-triage.json' with { type: 'json' };
import noShow from './scenarios/no-show.json' with { type: 'json' };
import sepsisAbstraction from './scenarios/sepsis-abstraction.json' with { type: 'json' };
import { Scenario, type ScenarioFile } from './scenario.js';

const FILES: readonly unknown[] = [icuDeterioration, noShow, imagingTriage, sepsisAbstraction, careAgent];

export const SCENARIOS: readonly Scenario[] = FILES.map((file) => new Scenario(file as ScenarioFile));
