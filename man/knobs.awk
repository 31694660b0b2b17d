# SPDX-License-Identifier: BSD-3-Clause
# The list of knobs in madeleine-knobs(7), from the table in src/base/knob.c:
# awk -f knobs.awk knob.c madeleine-knobs.7.in
function bound(text) {
    gsub(/^ +| +$/, "", text)
    if (text ~ /<<|_MAX$/)
        return "" # so big that it is none
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
function describe(entry,    s, name, type, def, help, rest, range, low, high) {
    split(entry, s, "\"") # [ID] = {"NAME", TYPE, "default", "help" "more", min, max}
    name = s[2]; type = s[3]; def = s[4]; help = s[6]
    rest = substr(entry, index(entry, "\"" help "\"") + length(help) + 2)
    while (rest ~ /^[ \n]*"/) { # a text in several pieces
        sub(/^[ \n]*"/, "", rest)
        help = help substr(rest, 1, index(rest, "\"") - 1)
        rest = substr(rest, index(rest, "\"") + 1)
    }
    sub(/}.*/, "", rest)
    split(rest, range, ",")
    low = bound(range[2]); high = bound(range[3])
    gsub(/[^A-Z_]/, "", type)
    printf ".TP\n.B %s\n%s%s.\n", name, toupper(substr(help, 1, 1)), roff(substr(help, 2))
    printf "%s%s.\n", "Default: ", def == "" ? "empty" : roff(def)
    if (type ~ /_(INT|BYTES|MS)$/)
        printf "From %s%s.\n", roff(low), high == "" ? " on" : " to " roff(high)
}
FNR == NR {
    if (/madi_knobs\[.*= *\{$/) { inside = 1; next }
    if (inside && /^};/) inside = 0
    if (inside) {
        if (/^ *\[MADI_KNOB_/) entry[++n] = ""
        sub(/^ +/, " ")
        entry[n] = entry[n] $0
    }
    next
}
/^@KNOBS@$/ { for (i = 1; i <= n; i++) describe(entry[i]); next }
{ print }
