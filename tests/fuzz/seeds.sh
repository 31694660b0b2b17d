#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The seed corpus through the replay program, built with the compiler and the sanitizers of this build.
here=$(cd "$(dirname "$0")" && pwd)
failed=0
for folder in "$here"/corpus/*; do
    timeout 120 "${BUILD:?}/tests/fuzz/replay" "${folder##*/}" "$folder"/* || {
        echo "not ok fuzz-${folder##*/} (exit status $?)"
        failed=1
    }
done
exit $failed
