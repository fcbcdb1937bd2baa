/**
 * A language model that abstracts admissions for the register of sepsis: it plans, calls tools, reads passages of the
 * record, and writes a long summary with its sources. The abstractor who asked for it fills in a survey; of some
 * admissions a second abstractor's opinion comes days later. The newer version takes longer and is liked better.
 */
import { DAY, HOUR, MINUTE, PlannedRun, type Sender } from '../planned-run.js';
import { type Random, spread, workingWeek } from '../random.js';
import { dayPath, modelInstance, type Scenario, type Scene } from '../scenario.js';

const NAME = 'sepsis-abstraction';
const MODELS = [
  modelInstance('sepsis-abstractor', '2.3'),
  modelInstance('sepsis-abstractor', '3.0'),
] as const;
/** Abstractors keep office hours, with a pause at noon. */
const WEEK = workingWeek((hour) => (hour < 7 || hour >= 18 ? 0.05 : hour === 12 ? 3 : 10), 0.04);

const TOOLS = [
  { tool: 'search_notes', finds: 'progress notes that mention infection or antibiotics' },
  { tool: 'get_laboratory_results', finds: 'lactate, creatinine, bilirubin and platelets of the admission' },
  { tool: 'get_vital_signs', finds: 'blood pressure and temperature, hour by hour' },
  { tool: 'get_medication_administrations', finds: 'first doses of antibiotics and volumes of fluid' },
  { tool: 'get_microbiology', finds: 'blood, urine and sputum cultures with their times' },
] as const;

const PASSAGES = [
  'Emergency department note: fever, rigors and productive cough for two days',
  'Progress note, day 1: "likely urosepsis, cultures sent, ceftriaxone started"',
  'Nursing note: mean arterial pressure 58 after the second litre of crystalloid',
  'Laboratory report: lactate 4.1 mmol/L, repeated after four hours at 2.2 mmol/L',
  'Microbiology report: Escherichia coli in two of two blood culture bottles',
  'Radiology report: consolidation of the right lower lobe',
  'Intensive care note: noradrenaline 0.12 µg/kg/min to keep the mean pressure above 65',
  'Discharge letter: recovered, antibiotics by mouth for seven more days',
  'Guideline passage: time zero is the earliest time at which all criteria are met',
] as const;

const SOURCES = [
  'urinary tract',
  'lungs',
  'biliary tract',
  'skin and soft tissue',
  'an infected line',
] as const;
const ORGANISMS = [
  'Escherichia coli',
  'Klebsiella pneumoniae',
  'Staphylococcus aureus',
  'no organism',
] as const;

const AGENT: Sender = {
  app: 'sepsis-abstractor',
  host: 'llm-gateway-2',
  process: 'abstractor-5f6b8-x2kqp',
  clock: 'microseconds',
};
const WORKBENCH: Sender = {
  app: 'abstraction-workbench',
  host: 'quality-12',
  process: 'browser',
  clock: 'milliseconds',
};

const PROMPT =
  'Abstract this admission for the sepsis register. State whether the criteria for severe sepsis or septic ' +
  'shock are met, when time zero was, which bundle elements were completed and when, and cite the source ' +
  'of every statement. Say so where the record is silent.';

function plan({ random, newId, startsAt, newVersion }: Scene): readonly PlannedRun[] {
  const run = new PlannedRun(NAME, newId);
  const encounter = `encounter-${String(random.integer(1, 99_999)).padStart(5, '0')}`;
  const slow = newVersion ? 1.7 : 1;
  let now = startsAt;
  /** Time goes on by what the step took. */
  const after = (latencyMs: number) => ({ at: (now += latencyMs), sender: AGENT, latencyMs });

  const started = run.start(
    {
      model_instance: MODELS[newVersion ? 1 : 0],
      user_identity: { caller_id: `abstractor-${random.integer(1, 14)}`, caller_type: 'clinician' },
      target_identity: { target_id: encounter, target_type: 'document' },
      inputs: {
        prompt: PROMPT,
        input_uri: `https://records.hospital.example/encounters/${encounter}`,
      },
    },
    { at: now, sender: AGENT },
  );
  let thought = run.artifact(
    {
      artifact_type: 'reasoning_trace',
      artifact_uri: `s3://traces/${dayPath(startsAt)}/${run.runId}/plan.jsonl`,
      mime_type: 'application/jsonl',
      description: 'Plan: find the suspicion of infection, then organ dysfunction, then the bundle',
    },
    { ...after(random.logNormal(1900 * slow, 0.4)), parent: started },
  );
  callTools({ run, random, encounter, thought, after });
  thought = run.artifact(
    {
      artifact_type: 'reasoning_trace',
      artifact_uri: `s3://traces/${dayPath(startsAt)}/${run.runId}/weighing.jsonl`,
      mime_type: 'application/jsonl',
      description:
        'Conflicting times for the first dose of antibiotics; the administration record is preferred',
    },
    { ...after(random.logNormal(3800 * slow, 0.4)), parent: thought },
  );
  const { text, met } = summary(random);
  const writing = random.logNormal(5200 * slow, 0.35);
  now += writing;
  const output = run.output(
    {
      output_type: 'text',
      output_uri: `https://quality.hospital.example/abstractions/${run.runId}`,
      summary: text,
      criteria_met: met,
      tokens: { prompt: random.integer(9_000, 42_000), completion: random.integer(380, 1_100) },
    },
    { at: now, sender: WORKBENCH, parent: thought, latencyMs: now - startsAt },
  );
  follow(run, random, output, now, newVersion);
  return [run];
}

interface ToolCalls {
  readonly run: PlannedRun;
  readonly random: Random;
  readonly encounter: string;
  /** The event that the calls follow from. */
  readonly thought: string;
  readonly after: (latencyMs: number) => { at: number; sender: Sender; latencyMs: number };
}

/** Each tool returns a passage or two. */
function callTools({ run, random, encounter, thought, after }: ToolCalls): void {
  for (const { tool, finds } of random.some(TOOLS, random.integer(2, 4))) {
    const call = run.artifact(
      {
        artifact_type: 'tool_call',
        artifact_uri: `urn:tool-call:${tool}:${random.integer(1, 1e9)}`,
        mime_type: 'application/json',
        description: `${tool}: ${finds}`,
        arguments: { encounter, from_hour: 0, to_hour: random.pick([24, 48, 72]) },
      },
      { ...after(random.logNormal(420, 0.7)), parent: thought },
    );
    for (const passage of random.some(PASSAGES, random.integer(1, 2))) {
      run.artifact(
        {
          artifact_type: 'text_chunk',
          artifact_uri: `https://records.hospital.example/encounters/${encounter}/text#${random.integer(1, 400)}`,
          mime_type: 'text/plain',
          description: passage,
          rank_score: Number(random.between(0.4, 0.99).toFixed(4)),
        },
        { ...after(random.logNormal(60, 0.6)), parent: call },
      );
    }
  }
}

function summary(random: Random): { text: string; met: boolean } {
  const met = random.chance(0.62);
  const hour = random.integer(1, 22);
  const minute = String(random.integer(0, 59)).padStart(2, '0');
  const lactate = random.between(2.1, 6.4).toFixed(1);
  const sentences = [
    met
      ? `The criteria for severe sepsis are met; time zero is ${hour}:${minute} on the first day.`
      : 'The criteria for severe sepsis are not met: no organ dysfunction is documented within six hours of the suspicion of infection.',
    `Infection was first suspected in the emergency department; the source given is ${random.pick(SOURCES)} [1].`,
    `Blood cultures were drawn before the first dose of antibiotics and grew ${random.pick(ORGANISMS)} [2].`,
    `The first lactate was ${lactate} mmol/L; it was repeated ${random.chance(0.7) ? 'within' : 'only after'} six hours [3].`,
    `Antibiotics were given ${random.integer(12, 190)} minutes after time zero according to the administration record; the progress note states an earlier time, which was not used [4].`,
    met
      ? `Fluids of ${random.integer(18, 34)} mL/kg were completed within three hours, and vasopressors were ${random.chance(0.4) ? 'started for persistent hypotension' : 'not needed'} [5].`
      : 'Fluids were given for dehydration and do not count towards the bundle [5].',
    'The record is silent on the reassessment of volume status and tissue perfusion.',
    'Confidence is high for the times taken from the administration record and moderate for those taken from free text.',
  ];
  return { text: sentences.join(' '), met };
}

/** The survey of who asked, and the second opinion. */
function follow(run: PlannedRun, random: Random, output: string, shownAt: number, newVersion: boolean): void {
  if (random.chance(0.6)) {
    const liking = (newVersion ? 4.1 : 3.4) + 0.8 * random.normal();
    const grade = Math.min(5, Math.max(1, Math.round(liking)));
    run.feedback(
      {
        feedback_type: 'survey',
        rating_value: grade,
        comment:
          grade >= 4
            ? 'Times agree with mine; the citations save most of the work.'
            : 'Time zero taken from the wrong note. Had to start over.',
        answers: { accurate: grade, complete: random.integer(2, 5), minutes_saved: random.integer(0, 45) },
      },
      { at: shownAt + random.logNormal(22 * MINUTE, 0.8), sender: WORKBENCH, parent: output },
    );
  }
  if (!random.chance(0.4)) return;
  const known = shownAt + random.between(2, 11) * DAY;
  const agreement = random.fraction();
  const [likely, partly] = newVersion ? [0.74, 0.92] : [0.6, 0.85];
  run.outcome(
    {
      ...(agreement < likely
        ? {
            outcome_type: 'validated',
            description: 'Second abstractor agreed on the criteria and on time zero',
          }
        : agreement < partly
          ? {
              outcome_type: 'partial',
              description: 'Second abstractor agreed on the criteria; time zero was 40 minutes later',
            }
          : { outcome_type: 'contradicted', description: 'Second abstractor found the criteria not met' }),
      occurred_at: new Date(known - random.between(1, 30) * HOUR).toISOString(),
      evidence_uri: `https://quality.hospital.example/abstractions/${run.runId}/second-opinion`,
    },
    { at: known, sender: WORKBENCH, parent: output },
  );
}

export const sepsisAbstraction: Scenario = {
  name: NAME,
  title: 'Sepsis abstraction by a language model with tools',
  share: 0.15,
  runsAnEpisode: 1,
  models: MODELS,
  schedule: (period, episodes) => spread(WEEK, period, episodes),
  plan,
};
