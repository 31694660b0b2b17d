#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# doc/wire.md and the code say the same of what travels.
src=$(cd "$(dirname "$0")/../.." && pwd)
exec python3 "$src/tests/build/wire_doc.py" "$src"
