#!/bin/sh
# run.sh: the programs of chan.c under the weak-memory model checker GenMC (0.11): RC11, which takes half
# a minute, and IMM, which takes ten.
#
# Each program must hold. Then the same with one order made relaxed (WEAK=1..4, the marks [C1]..[C4] of
# fastq.h), for the first programs, where one side only pushes and the other only pops: that must be
# found. Without genmc there is nothing to run.
set -u

cd "$(dirname "$0")" || exit 1
passed=0
failed=0

if ! command -v genmc >/dev/null; then
  echo "skipped: genmc is not installed"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi

# check MODEL NUMBER [-DWEAK=K]: prints what the checker explored, or the fault it found. Its cache of
# instructions reports faults that are none, so it is left off.
check() {
  genmc "--$1" --disable-estimation --disable-instruction-caching -- -std=c11 "-DPROGRAM=$2" \
    ${3:+"$3"} chan.c 2>&1 | sed -n 's/^Error: /found: /p; s/^Number of complete executions /executions /p'
}

verdict() { # EXPECTED OUTPUT LABEL
  case $2 in
  *"$1"*) passed=$((passed + 1)) ;;
  *) failed=$((failed + 1)) && echo "FAILED: $3" ;;
  esac
  echo "$3: $(echo "$2" | head -n 1)"
}

names=$(sed -n 's/^    {"\([a-z0-9-]*\)", [0-9], {.*/\1/p' chan.c)
for model in rc11 imm; do
  number=0
  for name in $names; do
    out=$(check $model $number)
    case $out in
    *found:*) verdict nothing "$out" "$model $name" ;;
    *) verdict "executions explored" "$out" "$model $name" ;;
    esac
    number=$((number + 1))
  done
done
for number in 0 1 2 3 4; do
  for weak in 1 2 3 4; do
    verdict "found: " "$(check rc11 $number "-DWEAK=$weak")" "program $number, [C$weak] relaxed"
  done
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
