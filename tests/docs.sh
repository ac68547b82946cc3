#!/bin/sh
# docs.sh: the code that README.md and fastq.h show is the code of examples/hello.c, README.md lists
# every example and has no dead link, and every function of a face is described in the header.
set -u

cd "$(dirname "$0")/.." || exit 1
passed=0
failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

try() {
  name=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
  fi
}

sed 's,"\.\./fastq\.h","fastq.h",' examples/hello.c >"$dir/hello"
sed -n '/^```c$/,/^```$/p' README.md | sed '/^```/d' >"$dir/readme"
sed -n '/^ \* HELLO/,/^ \* CONTENTS/p' fastq.h | sed -n 's/^ \*     //p; s/^ \*$//p' |
  sed -e '1{/^$/d' -e '}' -e '${/^$/d' -e '}' >"$dir/header"
try "README.md shows examples/hello.c" diff "$dir/hello" "$dir/readme"
try "fastq.h shows examples/hello.c" diff "$dir/hello" "$dir/header"

for example in examples/*.c examples/recipes/*.c; do
  try "README.md lists $example" grep -q "($example)" README.md
done
for file in $(grep -o ']([^):]*)' README.md | tr -d ']()'); do
  try "README.md links to $file" test -e "$file"
done

for function in $(grep -o 'name##_[a-z_]*' fastq.h | sed 's/##//' | sort -u); do
  try "fastq.h describes $function" grep -Eq "^(/| )\*.*\b$function\b" fastq.h
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
