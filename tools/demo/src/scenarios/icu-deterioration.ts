/**
 * A model that scores every patient of an intensive care unit once an hour. Each score is a run: an explanation, a
 * tile on the board of the unit or, above the threshold, an alert, on which someone may put a thumb; a day or more
 * later it is known what became of the patient. The newer version alerts more often and is right less often.
 */
import { DAY, HOUR, MINUTE, type Period, PlannedRun, type Sender } from '../planned-run.js';
import type { Random } from '../random.js';
import { dayPath, modelInstance, patientId, type Scenario, type Scene } from '../scenario.js';

const NAME = 'icu-deterioration';
const MODELS = [
  modelInstance('deterioration-index', '4.2.0'),
  modelInstance('deterioration-index', '5.0.0'),
] as const;
const THRESHOLD = 0.6;
/** Scores of one patient, one an hour; beds change hands after so many. */
const STAY = 18;

const DRIVERS = [
  'respiratory rate 28/min and rising',
  'lactate 3.4 mmol/L',
  'urine output 0.3 mL/kg/h over 4 h',
  'noradrenaline dose doubled since midnight',
  'SpO₂ 89 % on FiO₂ 0.6',
  'heart rate 124/min, irregular',
  'Glasgow Coma Scale fell from 14 to 11',
  'platelets 78 × 10⁹/L',
  'temperature 39.1 °C',
  'mean arterial pressure 58 mmHg',
  'pH 7.24, base excess −9',
] as const;

const TRANSFERRED = [
  'Transferred to the high-dependency bay for non-invasive ventilation',
  'Intubated and ventilated',
  'Vasopressors started within the hour',
  'Returned to theatre for bleeding',
  'Continuous renal replacement started',
] as const;
const FALSE_ALARM = [
  'False alarm: stable at 24 hours, no change of treatment',
  'False alarm: artefact of a displaced saturation probe',
  'False alarm: the course expected after extubation',
  'False alarm: comfort care had been agreed before',
] as const;

const BOARD: Sender = { app: 'unit-board', host: 'icu-board-1', process: 'board', clock: 'wall seconds' };
const LINKER: Sender = {
  app: 'outcome-linker',
  host: 'analytics-2',
  process: 'linker-0',
  clock: 'milliseconds',
};
const ENGINES: readonly Sender[] = [1, 2, 3].map((number) => ({
  app: 'deterioration-watch',
  host: `icu-inference-0${number}`,
  process: `deterioration-watch-7c9d${number}`,
  clock: 'milliseconds',
}));

/** Whose bed, and how it goes with them; the same for all scores of a stay. */
interface Stay {
  readonly patient: string;
  readonly baseline: number;
  /** The score of the stay from which the patient gets worse; none when never. */
  readonly worseFrom: number | undefined;
}

function bedsFor(episodes: number, period: Period): number {
  return Math.ceil(episodes / Math.max(1, Math.floor((period.until - period.since) / HOUR)));
}

/** Where a score stands: in which bed, in which of all stays, and which score of that stay it is. */
function placeOf({ number, episodes, period }: Scene): { bed: number; stay: number; place: number } {
  const beds = bedsFor(episodes, period);
  const bed = number % beds;
  // Beds do not all change hands at once.
  const slot = Math.floor(number / beds) + (bed % STAY);
  return { bed, stay: Math.floor(slot / STAY) * beds + bed, place: slot % STAY };
}

function stayOf(random: Random, patients: number): Stay {
  return {
    patient: patientId(random.integer(1, patients)),
    baseline: random.between(0.05, 0.42),
    worseFrom: random.chance(0.3) ? random.integer(3, STAY - 1) : undefined,
  };
}

/**
 * Scores of one bed are an hour apart. With fewer of them than the period has hours, the stays lie apart: the first
 * score of a stay is where it would be if all were spread evenly, the others follow by the hour.
 */
function schedule(period: Period, episodes: number): (number: number, shift: number) => number {
  const beds = bedsFor(episodes, period);
  const group = beds * STAY;
  const apart = ((period.until - period.since) * group) / episodes;
  return (number) => {
    const inGroup = number % group;
    // Each bed has its minute of the hour.
    const hours = Math.floor(inGroup / beds) + (inGroup % beds) / beds;
    const step = Math.min(HOUR, apart / STAY);
    return period.since + Math.floor(number / group) * apart + hours * step;
  };
}

function plan(scene: Scene): readonly PlannedRun[] {
  const { random, newId, startsAt, newVersion } = scene;
  const { bed, stay, place } = placeOf(scene);
  const { patient, baseline, worseFrom } = stayOf(scene.shared(stay), scene.patients);
  const run = new PlannedRun(NAME, newId);
  const engine = ENGINES[bed % ENGINES.length] as Sender;

  const worse = worseFrom !== undefined && place >= worseFrom;
  const drift = newVersion ? 0.13 : 0;
  const raw = baseline + drift + (worse ? 0.45 : 0) + 0.1 * random.normal();
  const score = Math.min(0.99, Math.max(0.01, raw));
  const alert = score >= THRESHOLD;
  const shown = score.toFixed(2);
  const drivers = random.some(DRIVERS, alert ? 3 : 2);

  const started = run.start(
    {
      model_instance: MODELS[newVersion ? 1 : 0],
      user_identity: { caller_id: 'icu-monitor-gateway', caller_type: 'service' },
      target_identity: { target_id: patient, target_type: 'patient' },
      inputs: { input_uri: `s3://icu-observations/${dayPath(startsAt)}/${patient}/bed-${bed + 1}.json` },
    },
    { at: startsAt, sender: engine },
  );
  const scoring = random.logNormal(newVersion ? 95 : 140, 0.35);
  const explaining = random.logNormal(210, 0.4);
  const explained = startsAt + scoring + explaining;
  const explanation = run.artifact(
    {
      artifact_type: 'explanation',
      artifact_uri: `s3://icu-explanations/${dayPath(startsAt)}/${run.runId}.json`,
      mime_type: 'application/json',
      description: `Shapley values; most weight on ${drivers.join('; ')}`,
      method: 'kernel-shap',
    },
    { at: explained, sender: engine, parent: started, latencyMs: explaining },
  );
  const displayed = explained + random.logNormal(300, 0.5);
  const output = run.output(
    {
      output_type: alert ? 'text' : 'other',
      output_uri: `https://records.hospital.example/icu/${alert ? 'alerts' : 'tiles'}/${run.runId}`,
      summary: alert
        ? `High risk of deterioration within 6 hours: score ${shown}, threshold ${THRESHOLD.toFixed(2)}. ` +
          `Main drivers: ${drivers.join('; ')}. Bedside review within 15 minutes suggested.`
        : `Score ${shown}, below the threshold; shown on the board of the unit.`,
      score: Number(score.toFixed(4)),
      alert,
    },
    { at: displayed, sender: BOARD, parent: explanation, latencyMs: displayed - startsAt },
  );
  if (alert) follow(run, scene, { output, displayed, worse });
  else if (random.chance(0.01)) {
    const found = displayed + random.between(6, 30) * HOUR;
    run.outcome(
      {
        outcome_type: 'contradicted',
        occurred_at: new Date(found - random.between(1, 4) * HOUR).toISOString(),
        description: 'Deteriorated within 6 hours without an alert; found by the weekly review',
      },
      { at: found, sender: LINKER, parent: output },
    );
  }
  return [run];
}

/** What people make of an alert, and what became of the patient. */
function follow(
  run: PlannedRun,
  { random, newVersion }: Scene,
  { output, displayed, worse }: { output: string; displayed: number; worse: boolean },
): void {
  const right = worse && random.chance(newVersion ? 0.7 : 0.78);
  if (random.chance(0.5)) {
    const up = random.chance(right ? 0.9 : 0.25);
    run.feedback(
      {
        feedback_type: 'thumbs',
        direction: up ? 'up' : 'down',
        ...(random.chance(0.3) && {
          comment: up ? 'Went to the bedside at once, useful.' : 'We were with the patient already.',
        }),
      },
      { at: displayed + random.logNormal(6 * MINUTE, 0.9), sender: BOARD, parent: output },
    );
  }
  const happened = displayed + random.logNormal(5 * HOUR, 0.6);
  const known = happened + random.between(0.5, 2.5) * DAY;
  const rest = random.fraction();
  const outcome = right
    ? { outcome_type: 'validated', description: random.pick(TRANSFERRED) }
    : rest < 0.1
      ? { outcome_type: 'unknown', description: 'Left for another hospital before the outcome was known' }
      : rest < 0.25
        ? {
            outcome_type: 'partial',
            description: 'Treated for fluid overload on the unit; no transfer needed',
          }
        : { outcome_type: 'contradicted', description: random.pick(FALSE_ALARM) };
  run.outcome(
    {
      ...outcome,
      occurred_at: new Date(happened).toISOString(),
      evidence_uri: `https://records.hospital.example/encounters/${run.runId.slice(0, 8)}`,
    },
    { at: known, sender: LINKER, parent: output },
  );
}

export const icuDeterioration: Scenario = {
  name: NAME,
  title: 'Deterioration in intensive care, scored hourly',
  share: 0.35,
  runsAnEpisode: 1,
  models: MODELS,
  schedule,
  plan,
};
