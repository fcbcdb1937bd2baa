/** Limits questions to a scope. */
import type { Catalogue, CatalogueRun, RunFilter } from '@clinical-events/collector/catalogue/catalogue';
import type { Scope } from '../contract.js';

/** The conditions of a scope, together with those of a question. @returns undefined if nothing can match. */
export function filterWithin(scope: Scope, asked: RunFilter): RunFilter | undefined {
  const { organisation, application, user } = asked;
  if (isOutside(scope.organisations, organisation) || isOutside(scope.applications, application))
    return undefined;
  if (scope.caller !== undefined && (user ?? scope.caller) !== scope.caller) return undefined;
  return {
    ...asked,
    ...(organisation === undefined && { organisations: scope.organisations }),
    ...(application === undefined && { applications: scope.applications }),
    ...(scope.caller !== undefined && { user: undefined, onlyUser: scope.caller }),
  };
}

function isOutside(names: readonly string[] | undefined, name: string | undefined): boolean {
  return names !== undefined && name !== undefined && !names.includes(name);
}

/** Whether a run of the catalogue is in the scope. */
export function isWithin(scope: Scope, run: CatalogueRun, catalogue: Catalogue): boolean {
  const { organisations, applications, caller } = scope;
  const { organisation, application, recordId, isRun } = run;
  if (organisations?.includes(organisation) === false) return false;
  if (applications !== undefined && (application === null || !applications.includes(application)))
    return false;
  if (caller === undefined) return true;
  return catalogue.count({ recordId, organisation, isRun, onlyUser: caller, limit: 1 }) > 0;
}
