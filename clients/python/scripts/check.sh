#!/usr/bin/env bash
# All that the client for Python is checked by, beside its tests that need the standard library alone (npm test): style,
# types, and the integrations with the newest and the oldest libraries they claim.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
  echo 'skipped: there is no python3 of version 3.10 or newer with venv'
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

# environment NAME: an empty one.
environment() { python3 -m venv "$scratch/$1"; }
# install NAME WHAT…: a registry that is away for a moment is no fault of a change.
install() {
  "$scratch/$1/bin/python" -m pip install --quiet --retries 10 --timeout 60 "${@:2}" ||
    { echo "$1: once more" && sleep 30 && "$scratch/$1/bin/python" -m pip install --quiet --retries 10 "${@:2}"; }
}

echo '- style and types'
environment tools
install tools -r scripts/tools.txt
tools=$scratch/tools/bin
"$tools/ruff" check --no-cache .
"$tools/ruff" format --no-cache --check .
"$tools/mypy" --cache-dir "$scratch/mypy"
"$tools/pyright" --pythonpath "$tools/python"

for versions in newest oldest; do
  echo "- the integrations, with the $versions libraries"
  environment "$versions"
  install "$versions" -r "tests_libraries/$versions.txt"
  (cd tests_libraries && "$scratch/$versions/bin/python" -m pytest -q -p no:cacheprovider -W ignore --ignore test_servers.py .)
done

echo '- servers and workers that fork'
environment servers
install servers -r tests_libraries/servers.txt
(cd tests_libraries && "$scratch/servers/bin/python" -m pytest -q -p no:cacheprovider -W ignore test_servers.py)

echo '- a campaign of a few kills'
python3 campaign/kills.py --captures 20000 --kills 6
