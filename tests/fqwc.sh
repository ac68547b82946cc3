#!/bin/sh
# tests/fqwc.sh FQWC: compares the program FQWC with GNU wc, byte for byte: what goes to standard
# output, what goes to standard error apart from the program's name, and the exit status.
# A case is a line of shell that calls `count`, run once as wc and once as fqwc.
#
# shellcheck disable=SC2016,SC2059,SC2119,SC2120,SC2317  # cases are evaluated, formats are data
set -u
LC_ALL=C
export LC_ALL
unset POSIXLY_CORRECT

passed=0
failed=0
skipped=0

end() {
  if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
  else
    echo "$passed passed, $failed failed"
  fi
  [ "$failed" -eq 0 ]
  exit
}

skip() { # skip LABEL WHY
  echo "skipped: $1: $2"
  skipped=$((skipped + 1))
}

verdict() { # verdict LABEL, after a command that tells
  if [ $? -eq 0 ]; then
    passed=$((passed + 1))
  else
    echo "FAILED: $1"
    failed=$((failed + 1))
  fi
}

if [ $# -ne 1 ] || [ ! -x "$1" ]; then
  echo "usage: fqwc.sh FQWC" >&2
  exit 2
fi
fqwc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
case $(wc --version 2>/dev/null) in
*GNU*) ;;
*)
  skip "everything" "wc is not GNU wc"
  end
  ;;
esac

work=$(mktemp -d) || exit 2
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
tree=$work/tree
mkdir "$tree"
options=

count() {
  if [ "$who" = wc ]; then
    wc "$@"
  else
    # shellcheck disable=SC2086  # the options are words
    "$fqwc" $options "$@"
  fi
}

count_list() { # the names are the lines of a file
  if [ "$who" = wc ]; then
    tr '\n' '\0' <"$1" >"$work/list0"
    wc --files0-from="$work/list0"
  else
    count <"$1"
  fi
}

same() { # same LABEL CASE
  for who in wc fqwc; do
    (cd "$tree" && eval "$2") >"$work/$who.out" 2>"$work/$who.err"
    echo $? >"$work/$who.status"
  done
  for part in out err; do
    sed 's/^wc: /fqwc: /' "$work/wc.$part" >"$work/wc.named"
    mv "$work/wc.named" "$work/wc.$part"
  done
  {
    cmp "$work/wc.out" "$work/fqwc.out" && cmp "$work/wc.err" "$work/fqwc.err" &&
      cmp "$work/wc.status" "$work/fqwc.status"
  } >"$work/difference" 2>&1
  verdict "$1"
  if [ -s "$work/difference" ]; then
    head -n 5 "$work/difference" "$work/wc.err" "$work/fqwc.err"
    diff "$work/wc.out" "$work/fqwc.out" | head -n 10
  fi
}

random_bytes() { # random_bytes SEED N ALPHABET, the alphabet in octal: 141 for a
  printf "$(awk -v seed="$1" -v n="$2" -v alphabet="$3" 'BEGIN {
    srand(seed)
    size = split(alphabet, octal, " ")
    for (i = 0; i < n; i++) printf "\\%s", octal[1 + int(rand() * size)]
  }')"
}

all_bytes=$(awk 'BEGIN { for (i = 0; i < 256; i++) printf "%03o ", i }')
text_bytes="141 142 172 101 060 056 040 040 011 012"

# ---- What is counted ----

# Whether a byte that is neither printing nor white space makes a word has changed between releases
# of wc. Without it the cases below are about text.
if [ "$(printf 'a \001 b' | wc -w)" -eq 2 ]; then
  binary=yes
else
  binary=no
  skip "bytes that are no text" "this wc counts them as words, release 9.1 and fqwc do not"
fi

cd "$tree" || exit 2
mkdir bytes strings lengths
for byte in $all_bytes; do
  printf "a\\${byte}b" >"bytes/inside-$byte"
  printf " \\${byte} " >"bytes/alone-$byte"
  printf "\\${byte}a \\${byte}b \\${byte}" >"bytes/before-$byte"
done
strings=.
for round in 1 2 3 4; do
  longer=
  for string in $strings; do
    for byte in 141 040 012 001 377; do
      longer="$longer $string\\$byte"
    done
  done
  strings=$longer
  number=0
  for string in $strings; do
    number=$((number + 1))
    printf "${string#.}" >"strings/$round-$number"
  done
done
random_bytes 1 66000 "$text_bytes" >text
cat text text text >long-text
head -c 140000 /dev/zero | tr '\0' x >one-word
yes a | head -c 100000 >same-lanes
# Round one step and 255 steps of the counting loop, and round the reads of both programs.
for length in 0 1 2 6 7 8 9 10 15 16 17 2031 2032 2033 2039 2040 2041 2042 2047 2048 2049 \
  16383 16384 16385 65535 65536 65537 131071 131072 131073; do
  head -c "$length" long-text >"lengths/text-$length"
  head -c "$length" one-word >"lengths/word-$length"
  tail -c "$length" long-text >"lengths/tail-$length"
done
same "lengths round the boundaries" 'count lengths/*'
same "a word across the buffers" 'count one-word'
same "words and lines that start in the same lanes" 'count same-lanes'
if [ $binary = yes ]; then
  head -c 100000 /dev/zero >nuls
  same "every byte inside, alone and before a word" 'count bytes/*'
  same "every string of up to 4 of 5 kinds of bytes" 'count strings/*'
  same "a file of NUL bytes" 'count nuls'
  wc bytes/* >"$work/expected"
  LC_ALL=C.UTF-8 "$fqwc" bytes/* | cmp -s - "$work/expected"
  verdict "the locale does not matter"
  for seed in 1 2 3; do
    random_bytes $seed 70001 "$all_bytes" >"random-$seed"
    random_bytes $seed 70001 "141 040 012 000 200" >"kinds-$seed"
    same "random bytes, seed $seed" "count random-$seed kinds-$seed"
  done
fi
for number in 1 2 3 4 5 6 7 8 9 10; do
  cat long-text long-text long-text long-text long-text long-text long-text long-text long-text
done >big
same "a file of 18 MB" 'count big'

# ---- What is named ----

mkdir dir many
: >empty
printf 'no newline at the end' >unfinished
printf 'in a name\n' >'a name  with spaces'
printf 'dash\n' >./-dash
printf 'line\n' >'two
lines'
head -c 999 text >size-999
head -c 1000 text >size-1000
head -c 9999999 big >size-9999999
for number in 1 2 3 4 5 6 7 8 9; do
  for digit in 0 1 2 3 4 5 6 7 8 9; do
    head -c $((number * digit * 137)) text >"many/$number$digit"
  done
done

all_named() { # every kind at once, in an order that sorting would change
  same "all kinds of names, $1" 'count many/99 "a name  with spaces" missing empty ./-dash dir \
    many/11 unfinished "not here" /dev/null nothing/here text many/00 dir/ text/not-a-dir'
  same "both outputs in one, $1" 'count many/1* missing text dir text gone empty 2>&1'
  same "one name, $1" 'count text'
  same "the names on standard input, $1" 'find dir lengths many >../list; count_list ../list'
}
all_named "no options"
for workers in 1 2 8; do
  for limit in 1 2 100; do
    options="-j $workers -q $limit"
    all_named "$options"
  done
done
options=

same "one empty file" 'count empty'
same "one directory" 'count dir'
same "one missing file" 'count missing'
same "width: 999 bytes" 'count size-999 empty'
same "width: 1000 bytes" 'count size-1000 empty'
same "width: a missing file first" 'count missing size-1000 empty'
same "width: only missing files" 'count missing gone'
same "width: a directory's own size" 'count size-9999999 dir'
same "width: a device" 'count empty /dev/null'
same "a name that starts with a dash" 'count -- -dash text'
same "a name of two lines" 'count text "two
lines"'
same "a name of no length" 'count text "" empty'
same "a name that is too long" 'count text "$(head -c 70000 one-word)" empty'
same "the same file many times" 'count text text text text text'
same "missing names that a shell would not take as they are" 'count "it'\''s" "it'\''s \"it\"" \
  "#a" "a#" "~" "a~" "{" "}" "{a" "a:b" "a;b" "a=b" "a?b" "a*b" "[" "]" "a\\b" "\$x" "a@%+,b" "!" \
  "$(printf "tab\\011") x" "$(printf "\\303\\251t\\303\\251")" "$(printf "\\033[31m")" "a
b" "$(printf "\\001'\''\\177z")" " " "a'\''#" "#'\''" "'\''" "<&|()^\`>"'

same "standard input from a file" 'count - <text'
same "standard input from a pipe" 'cat text | count -'
same "standard input among others" 'cat text | count many/11 - empty'
same "standard input twice" 'cat big | count - many/11 -'
same "standard input after --" 'cat text | count -- - text'
same "standard input half read" '{ read -r line; count - text; } <text'
same "standard input is a directory" 'count - - <dir'
# wc complains a second time, when it closes it.
same "standard input is closed" 'count - text many/11 <&- 2>/dev/null'
same "standard input is closed and not asked for" 'count text empty <&-'
if mkfifo fifo other-fifo 2>/dev/null; then
  same "fifos" 'cat text >fifo & cat long-text >other-fifo & count empty fifo text other-fifo'
  for workers in 1 2; do
    options="-j $workers -q 1"
    same "fifos, $options" 'cat big >fifo & cat text >other-fifo & count fifo other-fifo many/*'
  done
  options=
  # A writer whose fifo nobody opened would wait for ever.
  : <>fifo
  : <>other-fifo
else
  skip "fifos" "mkfifo failed"
fi
if [ -r /proc/version ] && [ -r /proc/filesystems ]; then
  same "files under /proc, of size 0 with content" 'count /proc/version text /proc/filesystems'
  same "a file whose first read fails" 'count text /proc/self/mem empty'
else
  skip "files under /proc" "there is no /proc"
fi
printf 'secret\n' >unreadable
chmod 000 unreadable
if [ -r unreadable ]; then
  skip "a file without read permission" "this user may read everything"
else
  same "a file without read permission" 'count text unreadable empty'
fi

printf 'text\nmissing\nempty' >../list
same "the last name without a newline" 'count_list ../list'
find many -type f |
  awk '{ name[NR] = $0 } END { for (i = 0; i < 100000; i++) print name[i % NR + 1] }' >../list
same "100,000 names" 'count_list ../list'

# ---- What wc has no equal for ----

out=$work/out
err=$work/err

"$fqwc" </dev/null >"$out" 2>"$err" && [ ! -s "$out" ] && [ ! -s "$err" ]
verdict "no names at all: prints nothing"

printf '%s\n' text - '' empty | "$fqwc" >"$out" 2>"$err"
[ $? -eq 1 ] && wc text empty | cmp -s - "$out" && [ "$(wc -l <"$err")" -eq 2 ]
verdict "the names '-' and '' on standard input are refused, the rest is counted"

"$fqwc" <dir >"$out" 2>"$err"
[ $? -eq 1 ] && [ ! -s "$out" ] && [ "$(cat "$err")" = "fqwc: -: Is a directory" ]
verdict "names cannot be read"

for bad in "-x text" "-j" "-j 0 text" "-j x text" "-j 2x text" "-j -1 text" "-q" "-q 0 text" \
  "-q 99999999999999999999 text" "-j 1 -q x text" "--help"; do
  # shellcheck disable=SC2086
  "$fqwc" $bad >"$out" 2>"$err" </dev/null
  [ $? -eq 2 ] && [ ! -s "$out" ] && grep -q '^usage: fqwc ' "$err"
  verdict "bad options: $bad"
done

"$fqwc" text >&- 2>"$err" <>/dev/null
[ $? -eq 1 ] && grep -q '^fqwc: write error' "$err"
verdict "standard output is closed"
if [ -w /dev/full ]; then
  "$fqwc" text >/dev/full 2>"$err"
  [ $? -eq 1 ] && grep -q '^fqwc: write error' "$err"
  verdict "no room for the output"
  "$fqwc" <../list >/dev/full 2>"$err"
  [ $? -eq 1 ] && [ "$(grep -c '^fqwc: write error' "$err")" -eq 1 ]
  verdict "no room for much output"
else
  skip "no room for the output" "there is no /dev/full"
fi

# Standard error is a terminal only here; every case above shows that nothing is drawn otherwise.
case $(script --version 2>/dev/null) in
*util-linux*)
  wc big many/* text >"$work/expected"
  SHELL=/bin/sh script -qec "'$fqwc' big many/* text >'$out'" /dev/null </dev/null >"$err" 2>&1
  status=$?
  [ $status -eq 0 ] && cmp -s "$out" "$work/expected"
  verdict "on a terminal: the results"
  grep -Eq '[0-9]+ of [0-9]+ files, [0-9]+ MB/s' "$err"
  verdict "on a terminal: progress shows"
  # After the last of "R<progress>E[K" comes a bare "RE[K"; the terminal may echo something more.
  tr '\r\033' RE <"$err" | grep -q 'MB/sE\[KRE\[K[^/]*$'
  verdict "on a terminal: the line is erased at the end"
  ;;
*) skip "progress on a terminal" "there is no script of util-linux" ;;
esac

end
