#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The short form of make check-rdma: the driver verbs over soft-RoCE in one virtual machine.
LIMIT=${LIMIT:-150} exec sh "$(dirname "$0")/rdma_check.sh" short
