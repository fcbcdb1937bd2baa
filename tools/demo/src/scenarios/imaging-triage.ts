/**
 * A triage of scans: the router sends each study to the model, which gives it a priority and a heat map before a
 * radiologist reads it. The report of the radiologist bears it out, in part or not at all, within minutes at night and
 * by the next day at the latest.
 */
import { HOUR, MINUTE, PlannedRun, type Sender } from '../planned-run.js';
import { modelInstance, patientId, type Scenario, type Scene } from '../scenario.js';
import { type Random, spread, workingWeek } from '../random.js';

const NAME = 'imaging-triage';
const MODELS = [modelInstance('ct-triage', '3.1'), modelInstance('ct-triage', '3.2')] as const;
/** An emergency department is never closed; outpatients are scanned on working days. */
const WEEK = workingWeek((hour) => (hour >= 7 && hour < 19 ? 6 : hour >= 19 && hour < 23 ? 3 : 1.2), 0.5);

/** What is looked for, in which scans, and how often it is there. */
const FINDINGS = [
  { finding: 'intracranial haemorrhage', study: 'CT head', prevalence: 0.12 },
  { finding: 'large-vessel occlusion', study: 'CT angiogram head and neck', prevalence: 0.15 },
  { finding: 'pulmonary embolism', study: 'CT pulmonary angiogram', prevalence: 0.18 },
  { finding: 'pneumothorax', study: 'CT thorax', prevalence: 0.08 },
] as const;

const PRIORITIES = ['routine', 'urgent', 'immediate'] as const;

const ENGINE: Sender = { app: 'ct-triage', host: 'gpu-04', process: 'ct-triage-0', clock: 'microseconds' };
const VIEWER: Sender = {
  app: 'radiology-viewer',
  host: 'reading-room-3',
  process: 'viewer',
  clock: 'wall seconds',
};
const REPORTING: Sender = { app: 'reporting', host: 'ris-1', process: 'ris-worker-2', clock: 'milliseconds' };

function plan({ random, newId, startsAt, newVersion, patients }: Scene): readonly PlannedRun[] {
  const run = new PlannedRun(NAME, newId);
  const { finding, study, prevalence } = random.pick(FINDINGS);
  const present = random.chance(prevalence);
  const score = sigmoid((present ? 2.2 : newVersion ? -1.9 : -1.5) + 1.1 * random.normal());
  const priority = score > 0.85 ? 2 : score > 0.5 ? 1 : 0;
  const studyUri = `https://pacs.hospital.example/studies/1.2.826.0.1.${random.integer(1e8, 1e9 - 1)}`;

  const started = run.start(
    {
      model_instance: MODELS[newVersion ? 1 : 0],
      user_identity: { caller_id: 'pacs-router', caller_type: 'service' },
      target_identity: { target_id: patientId(random.integer(1, patients)), target_type: 'patient' },
      inputs: { prompt: `${study}; look for ${finding}`, input_uri: studyUri },
    },
    { at: startsAt, sender: ENGINE },
  );
  const inference = random.logNormal(newVersion ? 7500 : 11_000, 0.4);
  const heatMap = run.artifact(
    {
      artifact_type: 'explanation',
      artifact_uri: `${studyUri}/derived/heat-map.png`,
      mime_type: 'image/png',
      description: `Heat map over the slices that weighed most for ${finding}`,
      slices: random.some([31, 34, 37, 40, 43, 46, 49, 52], 3),
    },
    { at: startsAt + inference, sender: ENGINE, parent: started, latencyMs: inference },
  );
  if (priority > 0) {
    const segmenting = random.logNormal(2600, 0.3);
    run.artifact(
      {
        artifact_type: 'other',
        artifact_uri: `${studyUri}/derived/segmentation.dcm`,
        mime_type: 'application/dicom',
        description: `Outline of the suspected ${finding}, ${random.between(0.4, 38).toFixed(1)} mL`,
      },
      {
        at: startsAt + inference + segmenting,
        sender: ENGINE,
        parent: heatMap,
        latencyMs: segmenting,
      },
    );
  }
  const displayed = startsAt + inference + random.logNormal(4000, 0.5);
  const output = run.output(
    {
      output_type: priority > 0 ? 'image' : 'text',
      output_uri: `https://pacs.hospital.example/worklist/${run.runId}`,
      summary:
        priority > 0
          ? `Priority ${PRIORITIES[priority]}: suspected ${finding}, score ${score.toFixed(2)}. Moved up the list.`
          : `Priority routine: no sign of ${finding}, score ${score.toFixed(2)}.`,
      priority: PRIORITIES[priority],
    },
    { at: displayed, sender: VIEWER, parent: heatMap, latencyMs: displayed - startsAt },
  );
  const read = displayed + random.logNormal([5 * HOUR, 70 * MINUTE, 14 * MINUTE][priority] ?? HOUR, 0.5);
  rate(run, random, output, read);
  run.outcome(
    {
      ...report(present, priority, finding, random.chance(0.12)),
      occurred_at: new Date(read).toISOString(),
      evidence_uri: `${studyUri}/report`,
    },
    { at: read + random.logNormal(4 * MINUTE, 0.8), sender: REPORTING, parent: output },
  );
  return [run];
}

/** A radiologist in five rates the result. */
function rate(run: PlannedRun, random: Random, output: string, read: number): void {
  if (random.chance(0.18)) {
    run.feedback(
      {
        feedback_type: 'rating',
        rating_value: Math.min(5, Math.max(0.5, Math.round(2 * (3.8 + random.normal())) / 2)),
        ...(random.chance(0.4) && { comment: 'Heat map sits on the right slice; the outline is generous.' }),
      },
      { at: read + random.between(10, 120) * 1000, sender: VIEWER, parent: output },
    );
  }
}

function sigmoid(value: number): number {
  return 1 / (1 + Math.exp(-value));
}

/** @param other what was marked is real, and something else than was said. */
function report(present: boolean, priority: number, finding: string, other: boolean): object {
  if (present && priority === 0) {
    return { outcome_type: 'contradicted', description: `Radiologist's report: ${finding}, not flagged` };
  }
  if (present) return { outcome_type: 'validated', description: `Radiologist's report: ${finding}` };
  if (priority === 0)
    return { outcome_type: 'validated', description: `Radiologist's report: no ${finding}` };
  return other
    ? {
        outcome_type: 'partial',
        description: `Radiologist's report: no ${finding}, another urgent finding nearby`,
      }
    : {
        outcome_type: 'contradicted',
        description: `Radiologist's report: no ${finding}; beam-hardening artefact`,
      };
}

export const imagingTriage: Scenario = {
  name: NAME,
  title: 'Triage of scans ahead of the radiologist',
  share: 0.15,
  runsAnEpisode: 1,
  models: MODELS,
  schedule: (period, episodes) => spread(WEEK, period, episodes),
  plan,
};
