#!/bin/sh
# The C header: two files of one program include it, without a warning; its functions do what they
# say, however it is optimised. In C++, too. Stacks that are all protected are refused.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
other="$folder/other.c"
printf '#include <hanare/native.h>\n#ifdef __cplusplus\nextern "C"\n#endif\nlong other(void);\n' > "$other"
printf 'long other(void)\n{\n\treturn hanare_is_kept();\n}\n' >> "$other"
flags='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -Iinclude -static -nostdlib -fno-stack-protector'
for compiler in 'gcc -std=c11' 'g++ -x c++ -std=c++17 -fno-exceptions -fno-rtti' 'g++ -x c++ -std=c++20 -fno-exceptions -fno-rtti'; do
    for level in 0 1 2 3 s; do
        # shellcheck disable=SC2086 # words
        $compiler $flags -O$level -o "$folder/program" tests/header.c "$other"
        status=0
        "$folder/program" one two || status=$?
        [ $status = 0 ] ||
            { echo "$compiler -O$level: what stands in line $status of native/tests/header.c does not hold"; exit 1; }
    done
done
# shellcheck disable=SC2086 # words
if said=$(gcc $flags -fstack-protector-all -c -o "$folder/other.o" "$other" 2>&1); then
    echo "-fstack-protector-all is not refused"
    exit 1
fi
case $said in *-fno-stack-protector*) ;; *) echo "$said"; exit 1 ;; esac
