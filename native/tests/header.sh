#!/bin/sh
# The C header: two files of one program include it, without a warning; its functions do what they say, however it is optimised.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '#include <hanare/native.h>\nlong other(void);\nlong other(void)\n{\n\treturn hanare_is_kept();\n}\n' > "$folder/other.c"
for level in 0 1 2 3 s; do
    gcc -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -Iinclude -static -nostdlib \
        -O$level -o "$folder/program" tests/header.c "$folder/other.c"
    status=0
    "$folder/program" one two || status=$?
    [ $status = 0 ] || { echo "with -O$level: what stands in line $status of native/tests/header.c does not hold"; exit 1; }
done
