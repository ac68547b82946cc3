#!/bin/sh
# compile.sh: what must compile, what must link and run, and what must not compile.
#
#   compile/*.c            each one alone, in every standard of C and C++, without a warning
#   compile/programs/*/    a.c and b.c in one program, each as C and as C++: must link and exit 0
#   compile/refused/*.c    must end in the error that its first line names: /* error: TEXT */
#   compile/unlinked/*/    a.c and b.c must not link: b.c names the missing symbol, /* undefined: NAME */
#
# The Makefile gives CC, CXX and their warning flags, STRICT and CXXSTRICT.
# shellcheck disable=SC2086  # compilers and flags are split at blanks on purpose
set -u

: "${CC:=cc}" "${CXX:=c++}" "${STRICT=-Wall -Wextra}" "${CXXSTRICT=-Wall -Wextra}"
cd "$(dirname "$0")/compile" || exit 1
passed=0
failed=0
skipped=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# try NAME COMMAND...: one test, which passes when the command succeeds.
try() {
  name=$1
  shift
  if "$@" >"$dir/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
    sed 20q "$dir/log"
  fi
}

# compile STANDARD SOURCE OBJECT
compile() {
  case $1 in
  c++*) $CXX -std="$1" $CXXSTRICT -O2 -x c++ -c "$2" -o "$3" ;;
  *) $CC -std="$1" $STRICT -O2 -x c -c "$2" -o "$3" ;;
  esac
}

# link_and_run LINKER DIRECTORY STANDARD_A STANDARD_B
link_and_run() {
  compile "$3" "$2/a.c" "$dir/a.o" &&
    compile "$4" "$2/b.c" "$dir/b.o" &&
    $1 -pthread -o "$dir/program" "$dir/a.o" "$dir/b.o" &&
    "$dir/program"
}

refuse() { # SOURCE
  error=$(sed -n '1s,^/\* error: \(.*\) \*/$,\1,p' "$1")
  if [ -z "$error" ] || compile c11 "$1" "$dir/refused.o" 2>"$dir/errors"; then
    return 1
  fi
  grep -F -e "$error" "$dir/errors" || ! cat "$dir/errors"
}

unlinked() { # DIRECTORY
  symbol=$(sed -n '1s,^/\* undefined: \(.*\) \*/$,\1,p' "$1/b.c")
  compile c11 "$1/a.c" "$dir/a.o" && compile c11 "$1/b.c" "$dir/b.o" && [ -n "$symbol" ] || return 1
  if $CC -pthread -o "$dir/program" "$dir/a.o" "$dir/b.o" 2>"$dir/errors"; then
    return 1
  fi
  grep -F -e "$symbol" "$dir/errors" || ! cat "$dir/errors"
}

# A compiler that is missing, or older than a standard, leaves that standard out.
standards=
echo 'int main(void) { return 0; }' >"$dir/probe.c"
for standard in c11 c17 c2x c++17 c++20; do
  if compile $standard "$dir/probe.c" "$dir/probe.o" 2>/dev/null; then
    standards="$standards $standard"
  else
    skipped=$((skipped + 1))
    echo "skipped: $standard: the compiler is missing or does not know it"
  fi
done

for standard in $standards; do
  for source in *.c; do
    try "$source as $standard" compile "$standard" "$source" "$dir/unit.o"
  done
done

for program in programs/*; do
  try "$program" link_and_run "$CC" "$program" c11 c11
  case $standards in
  *c++17*)
    try "$program: C and C++" link_and_run "$CXX" "$program" c11 c++17
    try "$program: C++ and C" link_and_run "$CXX" "$program" c++17 c11
    try "$program: C++" link_and_run "$CXX" "$program" c++17 c++17
    ;;
  esac
done

for source in refused/*.c; do
  try "$source" refuse "$source"
done

for program in unlinked/*; do
  try "$program" unlinked "$program"
done

total="$passed passed, $failed failed"
if [ $skipped -ne 0 ]; then
  total="$total, $skipped skipped"
fi
echo "$total"
[ $failed -eq 0 ]
