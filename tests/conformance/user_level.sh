#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The conformance suite by user-level threads: BUILD=<build folder> user_level.sh [DRIVER...]; its other variables are
# those of run.sh
[ $# -gt 0 ] || set -- self shm tcp fault:shm
THREADS=marcel exec sh "$(dirname "$0")/run.sh" "$@"
