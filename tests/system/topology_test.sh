#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mad_info topology and mad_info route: on the examples, on the files in the manual page, and on faulty files.
. "$(cd "$(dirname "$0")/../.." && pwd)/tests/harness/checks.sh"
here=$(cd "$(dirname "$0")/../.." && pwd)
info=$BUILD/mad_info
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp "$here"/examples/topology/*.conf "$work"
cd "$work" || exit 1
unset MAD_TOPOLOGY
export LC_ALL=C

# run ARGS: runs mad_info; exit status in $code, output in ./out and ./err
run() {
    within $limit "$info" "$@" >out 2>err </dev/null
    code=$?
}
# json NAME EXPRESSION: checks that ./out is one JSON object d for which the expression is true
json() {
    if python3 -c '
import json, sys
d = json.load(open("out"))
sys.exit(not eval("(" + sys.argv[1] + ")"))' "$2" 2>json.err; then
        ok "$1"
    else
        not_ok "$1" "not true: $2" "$(cat json.err)" "of: $(head -c 2000 out)"
    fi
}

run topology two_clusters.conf
if grep -q 'configured without libconfig' err; then
    check "a build without libconfig says so: exit code" 1 $code
    echo "skipped: this build cannot read topology files (libconfig-dev)"
    exit 77
fi

# ---- The examples, as text, JSON, DOT and SVG
for f in *.conf; do
    run topology "$f"
    check "$f: exit code" "0 " "$code $(cat err)"
    run topology "$f" --json
    json "$f: json" 'd["file"] == "'"$f"'" and d["hosts"] == len({h for c in d["clusters"] for h in c["hosts"]}) and
        {h["host"] for n in d["networks"] for h in n["hosts"]} == {h for c in d["clusters"] for h in c["hosts"]}'
    run topology "$f" --dot
    check "$f: dot: as many braces open as close" "$(tr -dc '{' <out | wc -c)" "$(tr -dc '}' <out | wc -c)"
    if command -v dot >/dev/null; then
        dot -Tsvg <out >drawn 2>dot.err && ok "$f: Graphviz draws it" || not_ok "$f: Graphviz" "$(cat dot.err)"
    fi
    run topology "$f" --svg picture.svg
    check "$f: svg: exit code, output" "0 0" "$code $(wc -c <out)"
    if python3 - picture.svg "$f" "$info" <<'PYTHON'; then ok "$f: svg"; else not_ok "$f: svg"; fi
import json, subprocess, sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
width, height = int(root.get("width")), int(root.get("height"))
d = json.loads(subprocess.run([sys.argv[3], "topology", sys.argv[2], "--json"], stdout=subprocess.PIPE).stdout)
texts = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text")]
for n in d["networks"]:
    assert any(t.startswith(n["network"] + " (") for t in texts), n["network"]
for c in d["clusters"]:
    assert c["cluster"] in texts, c["cluster"]
boxes = []
for e in root.iter("{http://www.w3.org/2000/svg}rect"):
    if e.get("rx") == "3":
        x, w = int(e.get("x")), int(e.get("width"))
        assert x >= 0 and x + w <= width and int(e.get("y")) + int(e.get("height")) <= height
        assert all(x >= b + v or x + w <= b for b, v in boxes), "boxes lie over each other"
        boxes.append((x, w))
assert boxes
PYTHON
done
run topology nested.conf
check_lines "nested: clusters inside" 1 '^    new  *new\[00-31\]' out
check_lines "nested: gateways" 1 '^  door, gate$' out
check_lines "nested: what is assumed" 1 'loire .*latency 25us \(assumed\), bandwidth 1Gbit/s \(assumed\)' out
check_lines "nested: order of preference" 1 '^  all  *over fast_old, inner, ethernet, line, loire$' out

# ---- Routes
run route two_clusters.conf red0 blue3
check "two clusters: exit code" 0 $code
check_lines "two clusters: the way" 1 '^  red0 --red-- gate --blue-- blue3$' out
check_lines "two clusters: its cost" 1 \
    '^    626.7us, 2 hops, 1Gbit/s at most: least cost; of its gateways such as run madgw go first$' out
run route two_clusters.conf red0 blue3 --size 8
check_lines "two clusters: cost of 8 bytes" 1 '^    50.07us, 2 hops' out
run route ring.conf north0 south1
check_lines "ring: two ways are the best" 2 '3 hops, 1Gbit/s at most: least cost; of its' out
run route ring.conf north0 east1 --json
json "ring: the other way round is the alternative" '[r["hops"] for r in d["routes"]] == [2, 4] and
    [r["best"] for r in d["routes"]] == [True, False] and "2 hops more" in d["routes"][1]["why"]'
run route parallel_gateways.conf red0 blue4 --json
json "parallel gateways: both" 'd["ways"] == 2 and d["routes"][0]["path"][0]["hosts"] == ["gate0", "gate1"]'
run route chain.conf north1 south2
check_lines "chain: three hops" 1 '^  north1 --north-- gate0 --middle-- gate1 --south-- south2$' out
run route nested.conf old03 n4
check_lines "nested: across sites" 1 '^  old03 --ethernet-- door --line-- gate --loire-- n4$' out
run route nested.conf new00 new01
check_lines "nested: the fast network first" 1 '^  new00 --fast_new-- new01$' out
check_lines "nested: the Ethernet after it, and why" 1 "'fast_new' comes before 'ethernet' in the order of virtual channel 'all'" out
run route nested.conf new00 n1 --channel lyon --json
check "nested: not over this channel: exit code" 1 $code
json "nested: why not" '"no network of host '"'n1'"' belongs to virtual channel '"'lyon'"'" in d["error"]'
run route chain.conf gate0 gate0
check_lines "to itself" 1 'the same host: no network is needed' out
MAD_TOPOLOGY=chain.conf run route north0 north1
check_lines "MAD_TOPOLOGY: a hop" 1 '^  north0 --north-- north1$' out
MAD_TOPOLOGY=chain.conf run topology
check_lines "MAD_TOPOLOGY: the file" 1 '^chain.conf: 14 hosts, 3 networks' out

# ---- Errors in files
run topology
check "no file: exit code" 1 $code
check_has "no file" "no topology file is named: give one, or set MAD_TOPOLOGY" err
run topology nowhere.conf --json
check "a file that is not there: exit code" 1 $code
check "a file that is not there" "nowhere.conf: the topology file cannot be read: No such file or directory" "$(cat err)"
json "a file that is not there: json" '"cannot be read" in d["error"]'
run route chain.conf north0 sotuh1
check "no such host: exit code" 1 $code
check_has "no such host" "chain.conf names no host 'sotuh1'; did you mean 'south1'?" err
run route chain.conf north0 south1 --channel fast
check_has "no such channel" "chain.conf names no virtual channel 'fast'; there are: default" err
run route chain.conf north0 south1 --size much
check "a size that is none: exit code" 2 $code
run route chain.conf north0
check "a host is missing" "2 mad_info: route: give two hosts behind the file 'chain.conf'" "$code $(cat err)"
printf 'networks = { red = { driver = "tcp"; hosts = "n.one, n.two, m.one"; }; };\n' >domains.conf
run route domains.conf n m
check "which host" "1 mad_info: domains.conf names 2 hosts 'n' (n.one, n.two): give the whole name of one" "$code $(cat err)"
run route domains.conf n.two m
check_lines "a name without its domain" 1 '^  n.two --red-- m.one$' out
run route domains.conf n.three m
check_has "another domain" "names no host 'n.three'; there are: n.one, n.two, m.one" err
run route north0
check "two hosts are missing: exit code" 2 $code
run topology two_clusters.conf --svg nowhere/picture.svg
check "a picture that cannot be written: exit code" 1 $code
printf 'networks = {\n  red = { driver = "tcp"; hosts = "a";\n    latancy = "1us";\n    bandwidth = "fast"; };\n};\n' >wrong.conf
run topology wrong.conf
check "a wrong file: exit code" 1 $code
check "a wrong file: line by line" "wrong.conf:3: network 'red': there is no setting 'latancy'; did you mean 'latency'?" "$(cat err)"

# ---- The examples of the manual page are right
sed -n '/^\.nf$/,/^\.fi$/p' "$here/man/mad_topology.5" | sed 's/\\(dq/"/g; s/\\-/-/g' | awk -v RS='\\.fi\n' \
    '{ sub(/^\.nf\n/, ""); printf "%s", $0 >("page" NR ".conf") }'
for f in page*.conf; do
    run topology "$f"
    check "mad_topology(5): $f" "0 " "$code $(cat err)"
done
check "mad_topology(5): two files" 2 "$(ls page*.conf | wc -l)"
[ $failures = 0 ]
