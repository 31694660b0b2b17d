# SPDX-License-Identifier: BSD-3-Clause
# Make the options in madrun(1) from the rows in src/tools/madrun_options.h:
# awk -f options.awk madrun_options.h madrun.1.in
function roff(text) {
    gsub(/\\"/, "\001", text) # a quote in a C string
    gsub(/\\n/, "\002", text) # a new paragraph
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/<b>/, "\\fB", text)
    gsub(/<i>/, "\\fI", text)
    gsub(/<\/[bi]>/, "\\fP", text)
    gsub(/``/, "\\(lq", text)
    gsub(/''/, "\\(rq", text)
    gsub(/\001/, "\\(dq", text)
    gsub(/\002/, "\n.IP\n", text)
    gsub(/  /, "\n", text) # each sentence has a line of its own
    return text
}
# argument NAME|name: words in capitals stand for values
function roff_argument(text) {
    text = roff(text)
    gsub(/[A-Z]+/, "\\fI&\\fP", text)
    gsub(/=/, "\\fB=\\fP", text)
    return text
}
# string FIELD: the text between the quotes, or nothing
function string(field) {
    return field ~ /^ *"/ ? substr(field, index(field, "\"") + 1, length(field) - index(field, "\"") - 1) : ""
}
function option(name, letter) {
    return "\\fB" (name == "" ? "\\-" letter : "\\-\\-" roff(name)) "\\fP"
}
# begin LINE: the first line of a row.  Its name, letter and argument are behind the type, member and value of an O, and
# first in a P.
function begin(line,    field, first, letter) {
    sub(/, *\\$/, "", line)
    sub(/, NULL\) *\\?$/, "", line)
    first = line ~ /^    O\(/ ? 4 : 1
    sub(/^    [OP]\(/, "", line)
    split(line, field, /, */)
    letter = substr(field[first + 1], 2, 1)
    field[first] = string(field[first])
    if (line ~ /NULL, NULL$/) { # in the entry of the row before
        heads[n] = heads[n] ", " option(field[first], letter)
        return 0
    }
    heads[++n] = option(field[first], letter)
    if (match(line, /, "[^"]*"$/))
        heads[n] = heads[n] " " roff_argument(string(substr(line, RSTART + 1)))
    return 1
}
FNR == NR {
    if (/^    [OP]\(/) { # O(type, member, initial, "name", letter, how, "argument", \ and on the next line "help", \
        part = begin($0)
    } else if (part && /^      "/) {
        sub(/^ *"/, "")
        if (part == 2)
            text[n] = text[n] substr($0, 1, match($0, /"\)? *\\?$/) - 1)
        part = 2
    }
    next
}
/^@OPTIONS@$/ {
    for (i = 1; i <= n; i++)
        printf ".TP\n%s\n%s\n", heads[i], roff(text[i])
    next
}
{ print }
