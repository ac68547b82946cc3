#!/bin/sh
# examples.sh PROGRAM...: runs the built examples; each must end by itself and exit 0.
set -u

passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for example in "$@"; do
  case ${example##*/} in
  fqwc) continue ;; # tests/fqwc.sh compares it with wc
  esac
  if "$example" </dev/null >"$log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $example"
    cat "$log"
  fi
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
