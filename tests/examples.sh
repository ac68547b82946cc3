#!/bin/sh
# examples.sh PROGRAM...: runs the built examples; each must end by itself, exit 0 and print what is
# expected here: a line for each of its lines, an extended regular expression.
set -u

passed=0
failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# expected NAME: the lines of its section.
expected() {
  awk -v name="$1" '/^== / { found = $2 == name; next } found' <<'END'
== hello
1 squared is 1
2 squared is 4
3 squared is 9
4 squared is 16
5 squared is 25
== dispatch
 0 ms  begin index  1 running
 0 ms  begin style  2 running
10 ms  end   style  error 0
10 ms  begin logo   2 running
30 ms  end   index  error 0
30 ms  begin map    2 running
40 ms  end   map    error 404
40 ms  begin news   2 running
50 ms  end   logo   error 0
50 ms  begin mail   2 running
55 ms  end   mail   error 0
65 ms  end   news   error 0
6 fetches, 1 failed, at most 2 at once
== event_loop
3000 results, sum 1498500, in [0-9]+ turns of the loop
== graceful
interrupted: no more requests
after 50 ms: FQ_TIMEOUT, 2 run, 5 wait
10 accepted: 3 served, 2 cut short, 5 dropped
== isr_ring
[$]GPTXT,the ring wraps within this text
[$]GPTXT,and nobody notices
[$]GPTXT,end
76 bytes through a ring of 24
== jobs
primes up to 100000: 9592
longest way to 1 from 50000 or less: from 35655
Fridays the 13th in 2001 to 2400: 688
== lines
9074 lines, 407223 bytes in [0-9]+[.][0-9]+ ms; ended with FQ_CLOSED, error 0
== log_ring
4 threads logged 5000 lines each: [0-9]+ written in [0-9]+ batches, [0-9]+ dropped
0 out of order, 0 unaccounted for
== parallel_map
1000 cubes in 16 pieces, each in its place; the last is 997002999
== pipeline
2000 numbers, digit sum of their squares 50810
at most ([0-9]|[12][0-9]|3[0-2]) of 32 places were in use; .* a full channel [0-9]+ times
== future
fib[(]20[)] = 6765, fib[(]25[)] = 75025; a dropped one ends its wait too
== rate_limit
 *[0-9]+ ms  request 1
 *[0-9]+ ms  request 2
 *[0-9]+ ms  request 3
 *[0-9]+ ms  request 4
 *[0-9]+ ms  request 5
 *[0-9]+ ms  request 6
 *[0-9]+ ms  request 7
 *[0-9]+ ms  request 8
 *[0-9]+ ms  request 9
 *[0-9]+ ms  request 10
 *[0-9]+ ms  request 11
 *[0-9]+ ms  request 12
12 requests, 5 at once and the others every 10 ms
== retry
 0 ms  call 1, attempt 1: good
 0 ms  call 2, attempt 1: failed
 0 ms  call 3, attempt 1: failed
10 ms  call 2, attempt 2: failed
10 ms  call 3, attempt 2: failed
30 ms  call 2, attempt 3: good
30 ms  call 3, attempt 3: failed
70 ms  call 3, attempt 4: failed, given up
== timeout
10 ms  request 1 is answered
20 ms  request 4 waits too long
30 ms  request 2 runs too long
40 ms  request 3 is answered
55 ms  request 5 is answered
3 answers in time, 1 too late
END
}

# check NAME PROGRAM: runs it, with its output in $dir/out.
check() {
  expected "$1" >"$dir/expected"
  "$2" </dev/null >"$dir/out" 2>&1 || { echo "exit status $?"; return 1; }
  case $1 in
  hello) LC_ALL=C sort -o "$dir/out" "$dir/out" ;; # two threads print in any order
  esac
  awk 'FILENAME ~ /expected$/ { want[++n] = $0; next }
       $0 !~ "^(" want[++lines] ")$" { print "not as expected: " $0; wrong = 1 }
       END { exit wrong || lines != n || n == 0 }' "$dir/expected" "$dir/out"
}

for example in "$@"; do
  name=${example##*/}
  case $name in
  fqwc) continue ;; # tests/fqwc.sh compares it with wc
  esac
  if check "$name" "$example"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $example"
    cat "$dir/out"
  fi
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
