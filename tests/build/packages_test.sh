#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A build folder is configured again, with the same options, if packages were installed since (tests/packages.sh).
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/harness/checks.sh"
. "$top/tests/packages.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
# These configure and config.status only record how they are called; the file `there` lists the installed packages.
cat >configure <<'END2'
#!/bin/sh
echo "configure $*" >>../calls
: >Makefile
printf '#!/bin/sh\necho "status $*" >>../calls\n' >config.status
chmod +x config.status
END2
mkdir bin
printf '#!/bin/sh\ncat %s/there\n' "$dir" >bin/dpkg-query
chmod +x configure bin/dpkg-query
PATH=$dir/bin:$PATH
: >there

# configures NAME CALLS
configures() {
    : >calls
    configure_in out --with this
    check "$1" "0 $2" "$? $(tr '\n' ';' <calls)"
}
configures "a new folder" "configure --with this;"
configures "nothing has changed" ""
echo 'installed libopenmpi-dev 4.1.4-3' >there
configures "a package has come" "status --recheck;status ;"
configures "once" ""
echo 'installed libopenmpi-dev 4.1.4-4' >there
configures "a package is another" "status --recheck;status ;"
echo 'config-files libopenmpi-dev 4.1.4-4' >there
configures "a package is gone" "status --recheck;status ;"
rm out/packages
configures "a folder that was configured by hand" "status --recheck;status ;"
for p in iproute2 gcc libhwloc-dev; do
    case " $(echo $build_packages) " in *" $p "*) ok "the first command installs $p" ;; *) not_ok "the first command lacks $p" ;; esac
done
case "$(uname -m) $(echo $build_packages)" in
x86_64*\ libipsec-mb-dev*) ok "the first command installs libipsec-mb-dev" ;;
x86_64*) not_ok "the first command lacks libipsec-mb-dev" ;;
*libipsec-mb-dev*) not_ok "the first command wants libipsec-mb-dev, which is for x86-64 only" ;;
esac
for p in gdb build-essential libopenmpi-dev libfabric-dev libucx-dev libibverbs-dev librdmacm-dev; do
    case " $(echo $test_packages) " in *" $p "*) ok "the tests' command installs $p" ;; *) not_ok "the tests' command lacks $p" ;; esac
done
[ $failures = 0 ]
