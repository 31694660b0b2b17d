# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests: a description of a host for hwloc (HWLOC_XMLFILE).
#
#   two_nodes [DEVICE0 DEVICE1]   prints a host of two NUMA nodes; node N has processor N and, on PCI, the network
#                                 interface DEVICEN, or the RDMA device, if TYPE=3

two_nodes() {
    echo '<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">'
    echo "<object type=\"Machine\" os_index=\"0\" $(two_nodes_set 0x3) allowed_cpuset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">"
    for two_nodes_n in 0 1; do
        s=$(two_nodes_set "0x$((two_nodes_n + 1))")
        n=$two_nodes_n
        echo "<object type=\"Package\" os_index=\"$n\" $s gp_index=\"1$n\">" \
            "<object type=\"NUMANode\" os_index=\"$n\" $s gp_index=\"2$n\" local_memory=\"1073741824\"/>" \
            "<object type=\"Core\" os_index=\"$n\" $s gp_index=\"3$n\"><object type=\"PU\" os_index=\"$n\" $s gp_index=\"4$n\"/></object>"
        [ -z "$1" ] || echo "<object type=\"Bridge\" gp_index=\"5$n\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[1$n-1$n]\">" \
            "<object type=\"PCIDev\" gp_index=\"6$n\" pci_busid=\"0000:1$n:00.0\" pci_type=\"0200 [15b3:1017] [15b3:0006] 00\">" \
            "<object type=\"OSDev\" gp_index=\"7$n\" name=\"$1\" osdev_type=\"${TYPE:-2}\"/></object></object>"
        echo '</object>'
        [ -z "$1" ] || shift
    done
    echo '</object></topology>'
}

# two_nodes_set SET: prints the attributes of an object with these processors, and nodes of the same numbers
two_nodes_set() {
    echo "cpuset=\"$1\" complete_cpuset=\"$1\" nodeset=\"$1\" complete_nodeset=\"$1\""
}
