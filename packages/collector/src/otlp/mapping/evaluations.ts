/** An evaluation becomes an explanation, the feedback of a person, or an outcome that the operator has named. */
import type { EventKind } from '@clinical-events/protocol';
import { type Findings, nameOf, text } from '@clinical-events/protocol/spans';

export type Evaluation = Findings['evaluations'][number];

const OUTCOMES = ['validated', 'contradicted', 'partial'];
const THUMB = /^(?:thumbs?[ _-]?)?(up|down)$/i;

/** A score is a number; some emitters write text. */
export function scoreOf(score: unknown): number | string | undefined {
  return typeof score === 'number' && Number.isFinite(score) ? score : nameOf(score);
}

/** @param outcomes names of the evaluations that are outcomes. */
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
  // Of a score the scale is not known, so it is no rating.
  const type = thumbs ? 'thumbs' : onlyWords ? 'text' : 'survey';
  return { kind: 'user-feedback', members: { feedback_type: type, ...thumbs, ...about, comment: words } };
}
