/** Which role permits which page, and who acts in a request. */
import type { FastifyRequest } from 'fastify';
import { type Acting, ROLES, type Role, type Scope } from '../contract.js';
import type { Roles } from './roles.js';
import type { Sessions } from './sessions.js';

/** `lookup`: a list of the runs of a patient or caller. `contents`: a run with its texts and persons. */
export const PAGES = ['runs', 'lookup', 'run', 'contents', 'report', 'proof'] as const;
export type Page = (typeof PAGES)[number];

export const PERMITS: Readonly<Record<Role, Readonly<Record<Page, boolean>>>> = {
  reviewer: { runs: true, lookup: true, run: true, contents: true, report: true, proof: true },
  clinician: { runs: true, lookup: true, run: true, contents: true, report: false, proof: true },
  auditor: { runs: true, lookup: false, run: true, contents: false, report: true, proof: true },
  'break-glass': { runs: true, lookup: true, run: true, contents: true, report: true, proof: true },
};

/** Why a page is not shown. */
export interface Refused {
  /** 401: sign in first. 403: the person may not do it now. 404: there is no such role. */
  readonly status: 401 | 403 | 404;
  /** `reason`: break-glass needs a stated reason first, at `/break-glass`. */
  readonly why: 'signed-out' | 'role' | 'page' | 'reason';
  readonly sentence: string;
}

export function isRefused(answer: Acting | Refused): answer is Refused {
  return 'status' in answer;
}

/** What a scope is compared with. */
export interface RunNames {
  readonly organisation: string;
  readonly application: string | undefined;
  /** The users that the calls of the run name. */
  readonly callers: readonly string[];
}

/** Whether a run is within a scope; one that is not counts as missing. */
export function covers({ organisations, applications, caller }: Scope, run: RunNames): boolean {
  return (
    (organisations?.includes(run.organisation) ?? true) &&
    (applications === undefined ||
      (run.application !== undefined && applications.includes(run.application))) &&
    (caller === undefined || (run.callers.length > 0 && run.callers.every((each) => each === caller)))
  );
}

export type ActingFor = (request: FastifyRequest, role: string, page: Page) => Acting | Refused;

/** The one place that decides who acts. */
export function guardOf(roles: Roles, sessions: Sessions): ActingFor {
  return (request, name, page) => {
    const role = ROLES.find((each) => each === name);
    if (role === undefined) return { status: 404, why: 'role', sentence: 'There is no such page.' };
    const session = request.viewerSession;
    if (session === undefined)
      return { status: 401, why: 'signed-out', sentence: request.viewerProblem ?? 'You are not signed in.' };
    const { person } = session;
    const scope = roles.of(person).roles.get(role);
    if (scope === undefined)
      return { status: 403, why: 'role', sentence: `You do not have the role ${role}.` };
    if (!PERMITS[role][page])
      return { status: 403, why: 'page', sentence: `The role ${role} does not permit this page.` };
    if (role !== 'break-glass') return { person, role, scope, reason: undefined };
    const reason = sessions.granted(session)?.reason;
    if (reason === undefined)
      return { status: 403, why: 'reason', sentence: 'State a reason first; break-glass lasts 15 minutes.' };
    return { person, role, scope, reason };
  };
}
