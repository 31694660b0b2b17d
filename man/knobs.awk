# SPDX-License-Identifier: BSD-3-Clause
# Make the list of knobs in madeleine-knobs(7) from the rows in src/base/knobs.h:
# awk -f knobs.awk knobs.h madeleine-knobs.7.in
function bound(text) {
    gsub(/^ +| +$/, "", text)
    if (text ~ /<<|_MAX$/)
        return "" # so large that there is no bound
    gsub(/ \* KB$/, "K", text)
    sub(/^KB$/, "1K", text)
    gsub(/ \* MB$/, "M", text)
    sub(/^MB$/, "1M", text)
    gsub(/ \* GB$/, "G", text)
    sub(/^GB$/, "1G", text)
    return text
}
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}
# describe ENTRY: prints a row, K(ID, "NAME", TYPE, "default", min, max, "help" "more")
function describe(entry,    s, n, i, name, type, def, help, range, low, high) {
    n = split(entry, s, "\"")
    name = s[2]; type = s[3]; def = s[4]
    split(s[5], range, ",")
    for (i = 6; i < n; i += 2) # the text may have several pieces
        help = help s[i]
    low = bound(range[2]); high = bound(range[3])
    gsub(/[^A-Z]/, "", type)
    printf ".TP\n.B %s\n%s%s.\n", name, toupper(substr(help, 1, 1)), roff(substr(help, 2))
    printf "%s%s.\n", "Default: ", def == "" ? "empty" : roff(def)
    if (type ~ /^(INT|BYTES|MS)$/)
        printf "From %s%s.\n", roff(low), high == "" ? " on" : " to " roff(high)
}
FNR == NR {
    if (/^    K\(/)
        entry[++n] = ""
    if (n && /^    /)
        entry[n] = entry[n] $0
    next
}
/^@KNOBS@$/ { for (i = 1; i <= n; i++) describe(entry[i]); next }
{ print }
