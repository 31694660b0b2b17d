#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run one attack of this folder: attack.sh NAME
. "$(dirname "$0")/../harness/checks.sh"
where=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TRUST_SCRATCH="$scratch" PYTHONDONTWRITEBYTECODE=1
within 120 python3 "$where/$1.py"
exit $?
