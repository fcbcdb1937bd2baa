// Kubernetes manifests as `kubectl kustomize` renders them, a file for each overlay, with the image of this version.
// Only what the kustomizations in deploy/kubernetes use is implemented; anything else is an error.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parse, stringify } from 'yaml';

const DEPLOY = path.join(import.meta.dirname, '../../deploy/kubernetes');
const OVERLAYS = { '': 'base', '-postgres': 'postgres', '-postgres-migrate': 'postgres/migrate' };
/** The order of kustomize: what others refer to comes first. */
const KINDS = ['ServiceAccount', 'Service', 'StatefulSet', 'CronJob', 'PodDisruptionBudget'];
/** Lists that a strategic merge joins by a member of their elements, as the API's types say. Others are replaced. */
const MERGE_KEYS = {
  containers: 'name',
  initContainers: 'name',
  env: 'name',
  volumes: 'name',
  volumeMounts: 'mountPath',
  topologySpreadConstraints: 'topologyKey',
};

const isMap = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** @see https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/ */
function merged(base, patch, name) {
  const key = MERGE_KEYS[name];
  if (Array.isArray(base) && Array.isArray(patch) && key !== undefined) {
    const of = (element, among) => among.find((each) => each[key] === element[key]);
    const changed = patch.map((each) => merged(of(each, base), each));
    return [...changed, ...base.filter((element) => of(element, patch) === undefined)];
  }
  if (!isMap(base) || !isMap(patch)) return patch;
  const result = { ...base };
  for (const [member, value] of Object.entries(patch)) {
    if (value === null || member.startsWith('$'))
      throw new Error(`the patch of ${member} is not implemented`);
    result[member] = merged(base[member], value, member);
  }
  return result;
}

/** Applies an operation of RFC 6902 to the tree. */
function operate(tree, { op, path: pointer, value }) {
  const names = pointer.split('/').slice(1);
  const last = names.pop();
  const parent = names.reduce((part, name) => part[name], tree);
  if (!(last in parent)) throw new Error(`${pointer} is not there`);
  if (op === 'test' && parent[last] === value) return;
  if (op === 'replace') parent[last] = value;
  else if (op === 'remove' && Array.isArray(parent)) parent.splice(Number(last), 1);
  else throw new Error(`${op} of ${pointer} failed or is not implemented`);
}

function patch(resources, directory, { target, path: file, patch: text, ...rest }) {
  if (Object.keys(rest).length > 0) throw new Error(`${Object.keys(rest)} of a patch is not implemented`);
  const change = parse(text ?? readFileSync(path.join(directory, file), 'utf8'));
  const { kind, name } = target ?? { kind: change.kind, name: change.metadata.name };
  const at = resources.findIndex((each) => each.kind === kind && each.metadata.name === name);
  if (at === -1) throw new Error(`${directory} has no ${kind} ${name} to patch`);
  if (Array.isArray(change)) for (const operation of change) operate(resources[at], operation);
  else resources[at] = merged(resources[at], change);
}

/** The resources of a kustomization, in the order of kustomize. */
export function rendered(overlay) {
  const directory = path.join(DEPLOY, overlay);
  const {
    apiVersion,
    kind,
    resources,
    patches = [],
    ...rest
  } = parse(readFileSync(path.join(directory, 'kustomization.yaml'), 'utf8'));
  if (
    kind !== 'Kustomization' ||
    apiVersion !== 'kustomize.config.k8s.io/v1beta1' ||
    Object.keys(rest).length
  )
    throw new Error(`${directory}: ${Object.keys(rest)} of a kustomization is not implemented`);
  const made = resources.flatMap((name) =>
    name.endsWith('.yaml')
      ? [parse(readFileSync(path.join(directory, name), 'utf8'))]
      : rendered(path.join(overlay, name)),
  );
  for (const each of patches) patch(made, directory, each);
  const rank = ({ kind: of }) => (KINDS.includes(of) ? KINDS.indexOf(of) : KINDS.length);
  return made.sort((a, b) => rank(a) - rank(b));
}

function withImage(tree, image) {
  if (!isMap(tree) && !Array.isArray(tree)) return tree;
  const values = Object.entries(tree).map(([name, value]) => [
    name,
    name === 'image' && /^collector:/.test(value) ? image : withImage(value, image),
  ]);
  return Array.isArray(tree) ? values.map(([, value]) => value) : Object.fromEntries(values);
}

export async function build(out, { version, commit }) {
  for (const [suffix, overlay] of Object.entries(OVERLAYS)) {
    // kubectl reads YAML 1.1, in which on and yes without quotes are booleans.
    const documents = rendered(overlay).map((resource) =>
      stringify(withImage(resource, `collector:${version}`), { lineWidth: 0, compat: 'yaml-1.1' }),
    );
    const head = `# Collector ${version}, commit ${commit}: deploy/kubernetes/${overlay} of the sources.\n`;
    writeFileSync(
      path.join(out, `collector-kubernetes${suffix}-${version}.yaml`),
      head + documents.join('---\n'),
    );
  }
}
