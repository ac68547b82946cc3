#!/bin/sh
# run.sh [-s REASON]... COMMAND...: runs test programs and adds up their last lines.
#
# Each COMMAND is one argument: a program and its arguments, split at blanks. Its last line must be
# "N passed, N failed[, N skipped]". A crash, a timeout or another last line counts as one failure.
# -s counts one skipped test and says why. TEST_TIMEOUT is the limit for each program, in seconds.
set -u

limit=${TEST_TIMEOUT:-120}
passed=0
failed=0
skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

limited() {
  if command -v timeout >/dev/null; then
    timeout -k 5 "$limit" "$@"
  else
    "$@"
  fi
}

# number WORD: the number that stands before WORD in the last line; nothing when there is none.
number() {
  echo "$last" | grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' |
    sed -En "s/^(.*, )?([0-9]+) $1.*/\2/p"
}

run() {
  # shellcheck disable=SC2086  # the command is split at blanks on purpose
  limited $1 </dev/null >"$log" 2>&1
  status=$?
  last=$(tail -n 1 "$log")
  good=$(number passed)
  bad=$(number failed)
  left_out=$(number skipped)
  if [ $status -eq 124 ]; then
    last="no end after $limit s"
    bad=$((${bad:-0} + 1))
  elif [ -z "$bad" ]; then
    last="exit status $status without a result line"
    bad=1
  elif [ $status -ne 0 ] && [ "$bad" -eq 0 ]; then
    last="$last, but exit status $status"
    bad=1
  fi
  passed=$((passed + ${good:-0}))
  failed=$((failed + bad))
  skipped=$((skipped + ${left_out:-0}))

  if [ "$bad" -ne 0 ]; then
    cat "$log"
  else
    sed '$d' "$log" # what a good test has to say: a skipped line, a figure
  fi
  echo "$1: $last"
}

while [ "${1-}" = -s ]; do
  echo "skipped: $2"
  skipped=$((skipped + 1))
  shift 2
done
for command in "$@"; do
  run "$command"
done

total="$passed passed, $failed failed"
if [ "$skipped" -ne 0 ]; then
  total="$total, $skipped skipped"
fi
echo "$total"
[ "$failed" -eq 0 ]
