# SPDX-License-Identifier: BSD-3-Clause
# on_port.sh COMMAND...: runs the command; its only Ethernet interface is the port of its rank (ethernet.sh)
export MAD_ETH_INTERFACES="port${PMI_RANK:-0}"
exec "$@"
