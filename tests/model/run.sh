#!/bin/sh
# run.sh [rc11] [imm]: the programs of this folder under the weak-memory model checker GenMC (0.11).
#
# Each program must hold. Then the same with one order weakened: for every line of fastq.h that has a
# mark such as "[S1], pairs with", some program must be refused. Without genmc there is nothing to run.
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/model

# check MODEL SOURCE PROGRAM: prints what the checker explored, or the fault it found. Its cache of
# instructions reports faults that are none, so it is left off.
check() {
  genmc "--$1" --disable-estimation --disable-instruction-caching -- -std=c11 "-DPROGRAM=run_$3" \
    "$2" 2>&1 | sed -n 's/^Error: /found: /p; s/.*\(error:\)/\1/p
      s/^Number of complete executions explored: \(.*\)/\1 executions/p' | head -n 1
}

verdict() { # PATTERN OUTPUT LABEL
  case $2 in
  $1) echo "$3: $2" ;;
  *) echo "FAILED: $3: ${2:-no answer}" ;;
  esac
}

# holds MODEL FILE PROGRAM
holds() {
  verdict '*executions*' "$(check "$1" "$here/$2.c" "$3")" "$1 $2 $3"
}

# refused LINE OPERATION WEAKER FILE PROGRAM...: with the operation on that line of fastq.h weakened one
# of the programs, tried in this order, is.
refused() {
  dir=$(mktemp -d) line=$1 operation=$2 weaker=$3 file=$4
  shift 4
  mkdir -p "$dir/tests/model"
  cp "$here"/*.[ch] "$dir/tests/model"
  sed "${line}s/fqi_$operation(/model_${weaker}_$operation(/" "$root/fastq.h" >"$dir/fastq.h"
  out=
  for program; do
    case $out in
    *found*) ;;
    *) out=$(check rc11 "$dir/tests/model/$file.c" "$program") && by=$program ;;
    esac
  done
  rm -r "$dir"
  mark=$(sed -n "${line}s/.*\(\[[A-Z][0-9]\]\), pairs.*/\1/p" "$root/fastq.h")
  verdict 'found*' "$out" "line $line, $mark, $weaker $operation, by $by"
}

# marked MARK OPERATION WEAKER FILE PROGRAM...: the jobs for every such line.
marked() {
  lines=$(grep -n "fqi_$2(.*\[$1\], pairs" "$root/fastq.h" | cut -d: -f1)
  [ -n "$lines" ] || echo "missing $1 $2"
  shift
  for line in $lines; do
    echo "refused $line $*"
  done
}

jobs() {
  for model in ${*:-rc11 imm}; do
    for file in lockfree chan; do
      for program in $(sed -n 's/^  P(\([a-z0-9_]*\),.*/\1/p' "$here/$file.c"); do
        echo "holds $model $file $program"
      done
    done
  done
  marked S1 store relaxed lockfree spsc_1 spsc_spans_2
  marked S2 load relaxed lockfree spsc_1
  marked S3 store relaxed lockfree spsc_1 spsc_spans_2
  marked S4 load relaxed lockfree spsc_1 spsc_count
  marked L1 store relaxed lockfree mpmc_1
  marked L2 load relaxed lockfree mpmc_1
  marked L3 cas acquire lockfree seen_in
  marked L4 load relaxed lockfree seen_in
  marked L5 store relaxed lockfree mpsc_count
  marked L5 cas acquire lockfree parts_in
  marked L6 load relaxed lockfree parts_in count_4
  marked C1 store relaxed chan singles_1
  marked C2 load relaxed chan singles_1
  marked C3 store relaxed chan singles_1
  marked C4 load relaxed chan singles_1
}

case ${1-} in
missing)
  echo "FAILED: no $3 in fastq.h has the mark [$2]"
  exit
  ;;
holds | refused)
  "$@"
  exit
  ;;
esac
if ! command -v genmc >/dev/null; then
  echo "skipped: genmc is not installed"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi
log=$(mktemp)
jobs "$@" | xargs -L 1 -P "$(nproc)" "$0" | tee "$log"
failed=$(grep -c '^FAILED' "$log")
echo "$(($(wc -l <"$log") - failed)) passed, $failed failed"
rm "$log"
[ "$failed" -eq 0 ]
