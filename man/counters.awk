# SPDX-License-Identifier: BSD-3-Clause
# Make the counters in mad_info(1) from the rows in src/core/inspect/counters.h:
# awk -f counters.awk counters.h mad_info.1.in
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}
# describe NAME: prints the rows of MADI_COUNTERS_NAME
function describe(name,    i, k) {
    for (i = 1; i <= rows[name]; i++) {
        k = kind[name, i] == "COUNTER" ? "counter" : ""
        if (unit[name, i] != "")
            k = unit[name, i] (k == "" ? "" : ", " k)
        printf ".TP\n.B %s\n%s\n", key[name, i], roff(text[name, i])
        if (k != "")
            printf ".RI ( %s )\n", k
    }
}
FNR == NR {
    if (/^#define MADI_COUNTERS_[A-Z]+\(/) {
        name = $2
        sub(/^MADI_COUNTERS_/, "", name)
        sub(/\(.*/, "", name)
    }
    if (/^    [CN]\(/) { # C(group, key, KIND, "unit", column, "where", "text"), where the text may be on the next line
        split($0, field, /, */)
        n = ++rows[name]
        key[name, n] = field[2]
        kind[name, n] = field[3]
        unit[name, n] = substr(field[4], 2, length(field[4]) - 2)
        if (match($0, /"[^"]*"\)( \\)?$/))
            text[name, n] = substr($0, RSTART + 1, index(substr($0, RSTART + 1), "\"") - 1)
    } else if (/^      "/) {
        sub(/^ *"/, "")
        sub(/"\).*/, "")
        text[name, rows[name]] = $0
    }
    next
}
/^@COUNTERS / {
    print ".RS"
    for (w = 2; w <= NF; w++) {
        sub(/@$/, "", $w)
        describe($w)
    }
    print ".RE"
    next
}
{ print }
