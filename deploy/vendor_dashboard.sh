#!/usr/bin/env bash
# Fetches the dashboard's libraries from npm into src/streamtune/service/dashboard/vendor, with their licences, and
# writes vendor.json (versions and checksums, which tests/service/test_dashboard_files.py compares). Users need none of
# this: the files are in the repository and in the wheel. Run it to move to other versions (edit them below).
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/src/streamtune/service/dashboard/vendor
packages=(preact@11.2.0 htm@3.1.1 @preact/signals@2.11.4 @preact/signals-core@1.14.5 uplot@1.6.32 @fontsource-variable/inter@5.3.0)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
axe=axe-core@4.14.0  # for the tests alone: not in the wheel
(cd "$work" && npm init --yes >/dev/null 2>&1 && npm install --no-audit --no-fund --ignore-scripts "${packages[@]}" "$axe" >/dev/null 2>&1)
modules=$work/node_modules

# A page under "default-src 'self'" has no import map (it would be an inline script): bare names become paths.
relative() {
  sed -E -e 's#from *"preact/hooks"#from"./hooks.js"#g' -e 's#from *"preact"#from"./preact.js"#g' \
    -e 's#from *"@preact/signals-core"#from"./signals-core.js"#g' -e '/^\/\/# sourceMappingURL/d' "$1"
}
rm -rf "$target"
mkdir -p "$target/licences"
relative "$modules/preact/dist/preact.mjs" > "$target/preact.js"
relative "$modules/preact/hooks/dist/hooks.mjs" > "$target/hooks.js"
relative "$modules/htm/dist/htm.mjs" > "$target/htm.js"
relative "$modules/@preact/signals-core/dist/signals-core.mjs" > "$target/signals-core.js"
relative "$modules/@preact/signals/dist/signals.mjs" > "$target/signals.js"
relative "$modules/uplot/dist/uPlot.esm.js" > "$target/uplot.js"
cp "$modules/uplot/dist/uPlot.min.css" "$target/uplot.css"
cp "$modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2" "$target/inter.woff2"
cp "$modules/@fontsource-variable/inter/LICENSE" "$target/licences/inter.txt"
for name in preact htm uplot; do cp "$modules/$name/LICENSE" "$target/licences/$name.txt"; done
cp "$modules/@preact/signals/LICENSE" "$target/licences/signals.txt"
cp "$modules/@preact/signals-core/LICENSE" "$target/licences/signals-core.txt"

tests=tests/service/dashboard/axe
mkdir -p "$tests"
gzip --best --no-name --stdout "$modules/axe-core/axe.min.js" > "$tests/axe.min.js.gz"
cp "$modules/axe-core/LICENSE" "$tests/LICENSE"
echo "$axe, by deploy/vendor_dashboard.sh" > "$tests/VERSION"

python3 - "$target" "${packages[@]}" <<'PY'
import hashlib, json, pathlib, sys

target, packages = pathlib.Path(sys.argv[1]), sys.argv[2:]
files = {
    path.relative_to(target).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
    for path in sorted(target.rglob("*"))
    if path.is_file()
}
note = "made by deploy/vendor_dashboard.sh; bare imports are rewritten to paths, nothing else is changed"
text = json.dumps({"note": note, "packages": packages, "sha256": files}, indent=2)
(target / "vendor.json").write_text(text + "\n", encoding="utf-8")
PY
