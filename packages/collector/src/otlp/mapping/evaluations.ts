/** Maps an evaluation to an explanation, a person's feedback, or an outcome that the operator has named. */
import type { EventKind } from '@clinical-events/protocol';
import { type Findings, nameOf, text } from '@clinical-events/protocol/spans';

export type Evaluation = Findings['evaluations'][number];

const OUTCOMES = ['validated', 'contradicted', 'partial'];
const THUMB = /^(?:thumbs?[ _-]?)?(up|down)$/i;

/** The score of an evaluation: a number, although some emitters send a string. */
export function scoreOf(score: unknown): number | string | undefined {
  return typeof score === 'number' && Number.isFinite(score) ? score : nameOf(score);
}

/** @param outcomes names of evaluations that are outcomes. */
export function evaluated(
  { name, score, label, explanation, by }: Evaluation,
  outcomes: ReadonlySet<string>,
): { readonly kind: EventKind; readonly members: Readonly<Record<string, unknown>> } {
  const [named, labelled, words] = [nameOf(name), nameOf(label), text(explanation)];
  const about = { evaluation_name: named, score: scoreOf(score), label: labelled };
  if (named !== undefined && outcomes.has(named)) {
    const type = OUTCOMES.find((each) => each === labelled?.toLowerCase()) ?? 'unknown';
    return { kind: 'outcome', members: { outcome_type: type, ...about, description: words } };
  }
  if (by !== 'person')
    return { kind: 'internal-artifact', members: { artifact_type: 'explanation', ...about, text: words } };
  const [, direction] = THUMB.exec(labelled ?? '') ?? [];
  const onlyWords = about.score === undefined && labelled === undefined && words !== undefined;
  const thumbs = direction !== undefined && { direction: direction.toLowerCase() };
  // A score without a scale is not a rating.
  const type = thumbs ? 'thumbs' : onlyWords ? 'text' : 'survey';
  return { kind: 'user-feedback', members: { feedback_type: type, ...thumbs, ...about, comment: words } };
}
