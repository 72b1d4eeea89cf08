#!/bin/sh
# Unpack a Chromium for the browser tests where `system.sh` found none; say if there is none.
# Prints nothing when one is there. Never fails: without a browser those tests are skipped.
dir=${1:?usage: browser.sh DIRECTORY}

for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
[ -x "$dir/chromium" ] && exit 0

if command -v npm >/dev/null 2>&1; then
    echo "browser tests: unpacking the chromium of an npm package"
    mkdir -p "$dir" && cd "$dir" || exit 0
    npm install --silent --no-fund --no-audit --prefix . @sparticuz/chromium >/dev/null 2>&1 &&
        node --input-type=module -e '
            import chromium from "@sparticuz/chromium";
            import { copyFileSync } from "node:fs";
            copyFileSync(await chromium.executablePath(), "chromium");' &&
        chmod +x chromium && exit 0
fi
echo "browser tests: no Chromium here and none to be had; they will be skipped"
exit 0
