#!/usr/bin/env bash
# No tracked file names a path of one machine or the host of a package registry: both are somebody's set-up, not ours.
set -euo pipefail
cd "$(dirname "$0")/.."

# The brackets keep this file from finding itself.
patterns=(
    '(^|[^[:alnum:]_.~/-])/(work|root)/'
    '(^|[^[:alnum:]_.~/-])/home/[[:alnum:]]'
    'crates[.]io' 'static[.]rust-lang[.]org' 'deb[.]debian[.]org' 'pypi[.]org' 'npmjs[.](org|com)'
    'proxy[.]golang[.]org' 'repo[0-9]*[.]maven'
)
# And the mirrors that this machine is set up with.
if command -v apt-get >/dev/null; then
    # shellcheck disable=SC2016
    uri='$(REPO_URI)' # expanded by apt
    while read -r host; do
        patterns+=("${host//./[.]}")
    done < <(apt-get indextargets --format "$uri" 2>/dev/null | sed -n 's#^https*://\([^/:]*\).*#\1#p' | sort -u)
fi

arguments=()
for pattern in "${patterns[@]}"; do
    arguments+=(-e "$pattern")
done
# cargo itself writes the index's address into Cargo.lock.
if git grep -nIE "${arguments[@]}" -- . ':!Cargo.lock'; then
    echo "error: the lines above name a machine's path or a registry's host" >&2
    exit 1
fi
echo "no machine path, no registry host"
