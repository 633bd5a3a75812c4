#!/bin/bash
# 500 lines of bash that use most of what bash has, and print what must be the same anywhere.
set -u
export LC_ALL=C
shopt -s extglob

section() {
    printf '== %s\n' "$1"
}

fail() {
    echo "unexpected: $*"
    failures=$((failures + 1))
}

failures=0

section arithmetic
echo $((1 + 2 * 3)) $((2 ** 40)) $((17 % 5)) $((-17 / 5))
echo $((0x1f)) $((010)) $((2#1011)) $((36#zz))
a=5
((a += 3)); echo "$a"
((a <<= 2)); echo "$a"
echo $((a > 3 ? 10 : 20)) $((a++)) $((++a)) $((a--))
let 'b = a * 2' 'c = b - 1'; echo "$b $c"
for ((i = 0, j = 10; i < j; i += 3, j--)); do printf '%d-%d ' "$i" "$j"; done; echo
if ((a == 5)); then fail "a is 5"; fi
factorial() {
    local n=$1
    if ((n < 2)); then echo 1; else echo $((n * $(factorial $((n - 1))))); fi
}
factorial 10

section strings
text='The quick brown fox jumps over the lazy dog'
echo "${#text} ${text:4:5} ${text: -3} ${text#* } ${text##* } ${text%% *} ${text% *}"
echo "${text/quick/slow} ${text//o/0} ${text/#The/A} ${text/%dog/cat}"
echo "${text^^} ${text,,} ${text^} ${text~~}"
unset nothing
echo "${nothing:-default} ${nothing-unset} ${text:+set}"
: "${nothing:=assigned}"; echo "$nothing"
echo "${text@Q} ${#nothing}"
indirect=text; echo "${!indirect:0:9}"
printf '%5d|%-5d|%05d|%x|%o|%e|%s|%q|%b\n' 42 42 42 255 8 12345.678 str 'a b' 'x\ty'
printf '%s-%s\n' one two three
printf -v into '%03d' 7; echo "$into"
echo -e 'tab\there' $'quoted\ttab'
escaped=$'line1\nline2'; echo "$escaped" | wc -l

section arrays
list=(zero one two three)
list[7]=seven
echo "${#list[@]} ${list[2]} ${!list[@]} ${list[@]:1:2}"
list+=(eight nine)
unset 'list[1]'
for index in "${!list[@]}"; do printf '%s=%s ' "$index" "${list[$index]}"; done; echo
declare -A map=([red]=1 [green]=2 [blue]=3)
map[white]=4
for key in $(printf '%s\n' "${!map[@]}" | sort); do printf '%s:%s ' "$key" "${map[$key]}"; done; echo
[[ -v map[red] ]] && echo "has red"
[[ -v map[black] ]] || echo "has no black"
copy=("${list[@]/e/E}"); echo "${copy[*]}"
IFS=, ; echo "${list[*]}"; unset IFS
mapfile -t lines < <(seq 5); echo "${#lines[@]} ${lines[4]}"
readarray -t -s 1 -n 2 some < <(seq 10 20); echo "${some[*]}"
declare -i integer=5; integer+=3; echo "$integer"
declare -r constant=1; (constant=2) 2>/dev/null || echo "constant stays"
declare -n reference=text; echo "${reference:0:3}"

section control
for word in a b c; do
    case $word in
    a) echo "first" ;;
    b) echo "second" ;&
    x) echo "fallen through" ;;
    *) echo "other" ;;
    esac
done
n=0
while true; do
    ((++n > 20)) && break
    ((n % 2)) && continue
    printf '%d ' "$n"
done; echo
until ((n <= 0)); do ((n -= 7)); done; echo "$n"
for outer in 1 2 3; do
    for inner in 1 2 3; do
        ((inner == 2)) && continue 2
        ((outer == 3)) && break 2
        printf '%s%s ' "$outer" "$inner"
    done
done; echo
select choice in alpha beta; do echo "chose $choice"; break; done <<<2 2>/dev/null
if [[ abc == a* && abc != b* && 5 -gt 3 && -d / && ! -e /nonexistent ]]; then echo "tests hold"; fi
[[ "2024-05-17" =~ ^([0-9]+)-([0-9]+)-([0-9]+)$ ]] && echo "${BASH_REMATCH[@]:1}"
test -f /etc/passwd -a -r /etc/passwd && echo "readable"
[ -z "" ] && [ -n x ] && echo "empty and not"

section functions
outer_function() {
    local variable=local
    inner_function
    echo "$variable"
}
inner_function() {
    variable=changed
}
variable=global
outer_function; echo "$variable"
returns() { return "$1"; }
returns 42; echo "returned $?"
count_arguments() { echo "$# $*"; shift 2; echo "$# ${1-}"; }
count_arguments a 'b c' d e
recursive() { (($1)) && { printf '%d ' "$1"; recursive $(($1 - 1)); }; }
recursive 8; echo
variadic() { local IFS=+; echo "$*" "$(($*))"; }
variadic 1 2 3 4
options() {
    local OPTIND=1 option
    while getopts 'ab:c' option; do
        printf '%s(%s) ' "$option" "${OPTARG-}"
    done
    shift $((OPTIND - 1)); echo "rest: $*"
}
options -a -b value -c one two
type -t options section echo if
unset -f options; type -t options || echo "gone"

section redirection
folder=$(mktemp -d)
cd "$folder" || exit 1
echo one >file; echo two >>file; cat file
{ echo out; echo err >&2; } >both 2>&1; cat both
cat <<END | tr a-z A-Z
here $((1 + 1)) document
END
cat <<'END'
no $expansion here
END
cat <<-END
	tabs are stripped
	END
exec 3>third; echo "by descriptor" >&3; exec 3>&-; cat third
exec 4<file; read -r first <&4; read -r second <&4; exec 4<&-; echo "$first $second"
exec {number}>numbered; echo "named" >&"$number"; exec {number}>&-; cat numbered
echo string | { read -r piped; echo "got $piped"; }
wc -c <file
cat nonexistent 2>/dev/null || echo "no such file"
set -o noclobber; (echo x >file) 2>/dev/null || echo "not clobbered"; set +o noclobber
diff <(seq 3) <(seq 4) | tail -1
tee copy1 copy2 <file >/dev/null; cmp copy1 copy2 && echo "copies agree"
echo a >a.txt; echo b >b.txt; mkdir -p sub/deep; echo c >sub/deep/c.txt
while read -r left right; do echo "$right-$left"; done <<<$'1 2\n3 4'
while IFS=: read -r name _ id _; do [[ $id -eq 0 ]] && echo "$name"; done </etc/passwd | head -1
read -r -d '' block <<<"to the end" || true; echo "$block"
read -r -n 3 three <<<abcdef; echo "$three"
read -r -t 0.2 late < <(sleep 1; echo late) || echo "timed out"
printf 'x%.0s' {1..20}; echo

section globbing
echo *.txt
shopt -s globstar nullglob; echo **/*.txt; echo *.none; shopt -u nullglob
echo *.none
echo !(*.txt) | tr ' ' '\n' | sort | tr '\n' ' '; echo
shopt -s dotglob; touch .hidden; echo .h* ; shopt -u dotglob
echo {a,b}{1,2} {1..5} {10..1..3} {a..e}
echo ~root
[[ file == f?l[a-f] ]] && echo "pattern"
set -f; echo *; set +f

section substitution
echo "$(echo nested $(echo deeply $(echo inside)))"
echo `echo backticks`
lines=$(printf 'a\nb\n\n\n'); echo "${#lines}"
echo "$(<file)"
output=$(exit 3); echo "status $?"
output=$(false; echo continues); echo "$output"

section pipelines
seq 100 | grep 7 | sort -rn | head -3 | tr '\n' ' '; echo
seq 1000 | awk '{ s += $1 } END { print s }'
yes | head -5000 | wc -l
true | false | true; echo "${PIPESTATUS[*]}"
set -o pipefail; true | false | true; echo $?; set +o pipefail
! false; echo $?
seq 20 | while read -r n; do ((n % 5)) || echo -n "$n "; done; echo
shopt -s lastpipe; seq 3 | while read -r n; do last=$n; done; echo "$last"; shopt -u lastpipe
seq 50 | xargs -n 10 echo | wc -l
seq 8 | xargs -P 2 -I{} sh -c 'echo $(({} * {}))' | sort -n | tr '\n' ' '; echo
for n in 1 2 3 4; do echo "line $n"; done | sed -n '2,3p' | cut -d' ' -f2 | paste -sd+ | bc 2>/dev/null || echo 5
find . -name '*.txt' | sort
find . -type f -exec basename {} \; | sort | tr '\n' ' '; echo
tar cf - a.txt b.txt | tar tf -
gzip -c file | gunzip | cmp - file && echo "gzip agrees"
echo hello | od -An -c | tr -s ' '
dd if=/dev/zero bs=1k count=64 2>/dev/null | md5sum

section processes
sleep 0.1 & wait $!; echo "waited $?"
(exit 7) & wait $! || echo "child gave $?"
for n in 1 2 3; do (sleep "0.$((4 - n))"; echo "$n" >>order) & done; wait; sort order | tr '\n' ' '; echo
sleep 100 & victim=$!
# Before its exec the child has handlers of bash, which may lose the signal.
until [ "$(cat /proc/$victim/comm)" = sleep ]; do :; done
kill "$victim"; wait "$victim" 2>/dev/null; echo "killed: $?"
sleep 100 & victim=$!
kill -KILL "$victim"; { wait "$victim"; } 2>/dev/null; echo "killed: $?"
sleep 100 & victim=$!
until [ "$(cat /proc/$victim/comm)" = sleep ]; do :; done
kill -STOP "$victim"; kill -CONT "$victim"; kill -INT "$victim"; kill -TERM "$victim"
{ wait "$victim"; } 2>/dev/null; echo "stopped and ended: $?"
kill -0 "$victim" 2>/dev/null || echo "gone"
(echo "subshell ${BASH_SUBSHELL}"; (echo "deeper ${BASH_SUBSHELL}"))
{ bash -c 'kill -SEGV $$'; } 2>/dev/null; echo "segv: $?"
{ bash -c 'kill -ABRT $$'; } 2>/dev/null; echo "abrt: $?"
sh -c 'exit 9'; echo "exit: $?"
nonexistent-command 2>/dev/null; echo "not found: $?"
/etc/passwd 2>/dev/null; echo "not executable: $?"
(exec sh -c 'echo "executed"')
(exec -a other-name sh -c 'echo "$0"')
[[ $(sh -c 'echo $PPID') == "$$" ]] && echo "parent is right"
coproc doubler { while read -r n; do echo $((n * 2)); done; }
echo 21 >&"${doubler[1]}"; read -r doubled <&"${doubler[0]}"; echo "$doubled"
eval "exec ${doubler[1]}>&-"; wait "$doubler_PID"; echo "coprocess: $?"
wait -n < /dev/null; echo "none left: $?"
sleep 0.3 & sleep 0.1 & wait -n; echo "first: $?"; wait
timeout 0.3 sleep 10; echo "timeout: $?"
nice -n 3 nice
(ulimit -n 50; ulimit -n)
(ulimit -f 1; head -c 5000 /dev/zero >large) 2>/dev/null; echo "file limit: $?"
(umask 027; umask; touch masked; stat -c %a masked)
env -i A=1 B=2 sh -c 'echo $A$B'
A=temporary sh -c 'echo $A'; echo "${A-unset}"
export EXPORTED=yes; bash -c 'echo $EXPORTED'
f() { echo "exported function"; }; export -f f; bash -c f
mkfifo fifo; (echo "through a fifo" >fifo) & cat fifo; wait
ps -o comm= -p $$ | tr -d ' '

section traps
trap 'echo "usr1 caught"' USR1; kill -USR1 $$; trap - USR1
(trap 'echo "exit trap $?"' EXIT; exit 4); echo $?
(trap 'echo "err trap"' ERR; false; true)
(trap 'echo "term"; exit 5' TERM; kill -TERM "$BASHPID"; echo "not reached"); echo $?
(trap '' TERM; kill -TERM "$BASHPID"; echo "ignored")
trap 'count=$((count + 1))' USR2; count=0
for n in 1 2 3 4 5; do kill -USR2 $$; done; echo "$count"; trap - USR2
(trap 'echo "debug"' DEBUG; :) | head -1
bash -c 'trap "echo waiting interrupted" ALRM; (sleep 0.2; kill -ALRM $$) & wait; wait'
(trap 'echo child seen' CHLD; sleep 0.05 & wait; :) | head -1
trap -l | head -1 | tr -s ' \t' ' '
(set -e; false; echo "not reached"); echo "errexit $?"
(set -u; echo "${undefined_variable}") 2>/dev/null; echo "nounset $?"

section jobs
bash -c 'set -m; sleep 0.3 & jobs -p | wc -l; fg %1 >/dev/null; echo "foreground $?"'
bash -c 'set -m; sleep 5 & kill -STOP %1; wait %1; echo "stopped $?"; kill -KILL %1' 2>/dev/null |
    grep -v Stopped
sleep 5 & disown; kill $!
jobs | wc -l
(set -m; sh -c 'exit 3' & wait %1; echo "job $?")

section tools
sort -u <<<$'b\na\nb' | tr '\n' ' '; echo
sed -E 's/([a-z]+) ([a-z]+)/\2 \1/' <<<'hello world'
awk -F: '{ n++ } END { print (n > 5) }' /etc/passwd
awk 'BEGIN { for (i = 0; i < 5; i++) a[i] = i * i; for (i = 0; i < 5; i++) printf "%d ", a[i]; print "" }'
awk 'BEGIN { "echo command" | getline x; print x; print "to sort" | "sort"; close("sort") }'
perl -e 'print join(",", map { $_ ** 2 } grep { $_ % 2 } 1..9), "\n"'
perl -e 'if (my $pid = fork) { waitpid $pid, 0; print $? >> 8, "\n" } else { exit 6 }'
perl -e 'open my $f, "-|", "seq 3" or die; print while <$f>; close $f; print "$?\n"'
python3 -c 'print(sum(range(1000)), sorted({3, 1, 2}))'
python3 -c 'import subprocess; print(subprocess.run(["echo", "x"], capture_output=True).stdout)'
python3 -c 'import os; r, w = os.pipe(); os.fork() or (os.write(w, b"x"), os._exit(3)); print(os.read(r, 1), os.wait()[1])'
expr 6 \* 7
seq -s, 5; seq 1 0.5 3 | tr '\n' ' '; echo
date -u -d @86400 +%F
numfmt --to=iec 1048576
base64 <<<hello | base64 -d
head -c 100000 /dev/zero | sha256sum | cut -c1-16
cksum <file | cut -d' ' -f2
split -b 10 -d third part- && ls part-* | wc -l
join <(printf 'a 1\nb 2\n') <(printf 'a x\nb y\n')
comm -12 <(seq 5) <(seq 3 8) | tr '\n' ' '; echo
tr -dc a-z </dev/urandom | head -c 8 | wc -c
fold -w 5 <<<abcdefghij
nl -ba file | tr -s ' '
rev <<<abc; tac file
stat -c '%s %F' file; test file -ef file && echo "same file"
ln -s file link; readlink link; ln file hard; stat -c %h file
touch -d '2020-01-01 UTC' old; [[ file -nt old ]] && echo "newer"
chmod 640 file; stat -c %A file
cp -r sub sub2 && diff -r sub sub2 && echo "trees agree"
mv sub2 sub3; rm -r sub3; ls -d sub*
df . >/dev/null && du -s . >/dev/null && echo "df and du"
id -u >/dev/null && whoami >/dev/null && hostname >/dev/null && uname -s
flock lock sh -c 'flock -n lock true || echo "locked"'
script -qec 'test -t 0 && echo terminal' /dev/null </dev/null | tr -d '\r'
logname >/dev/null 2>&1; tty </dev/null
stdbuf -oL echo "line buffered"
nohup sh -c 'echo nohup' 2>/dev/null
setsid sh -c 'echo session'
yes x | tr -d '\n' | head -c 1000000 | wc -c
dd if=/dev/zero of=sparse bs=1 count=1 seek=1M 2>/dev/null; stat -c %s sparse
truncate -s 5000 sparse; wc -c <sparse

section loops-of-processes
total=0
for n in $(seq 30); do
    value=$(echo "$n" | sed 's/$/0/')
    total=$((total + value))
done
echo "$total"
sum=0
while read -r n; do sum=$((sum + n)); done < <(for n in $(seq 20); do echo "$n" | cat | cat; done)
echo "$sum"
for n in $(seq 12); do (sleep 0.01; exit $((n % 3))) & pids[n]=$!; done
ended=
for n in $(seq 12); do wait "${pids[n]}"; ended+=$?; done; echo "$ended"
tree() { (($1)) && { tree $(($1 - 1)) & tree $(($1 - 1)) & wait; } || echo leaf; }
tree 4 | wc -l

section sieve
limit=500
declare -a composite=()
for ((n = 2; n * n <= limit; n++)); do
    [[ -n ${composite[n]-} ]] && continue
    for ((m = n * n; m <= limit; m += n)); do composite[m]=1; done
done
primes=()
for ((n = 2; n <= limit; n++)); do [[ -z ${composite[n]-} ]] && primes+=("$n"); done
echo "${#primes[@]} ${primes[-1]}"

section quicksort
quicksort() {
    (($# < 2)) && { echo "$*"; return; }
    local pivot=$1 less=() more=() item; shift
    for item; do ((item < pivot)) && less+=("$item") || more+=("$item"); done
    echo $(quicksort "${less[@]}") "$pivot" $(quicksort "${more[@]}")
}
quicksort 9 3 7 1 8 2 6 4 5 0 11 10

section queens
size=6
solutions=0
columns=()
place() {
    local row=$1 column previous
    if ((row == size)); then
        ((solutions++))
        ((solutions == 1)) && echo "first: ${columns[*]}"
        return
    fi
    for ((column = 0; column < size; column++)); do
        for ((previous = 0; previous < row; previous++)); do
            if ((columns[previous] == column ||
                columns[previous] - column == row - previous ||
                column - columns[previous] == row - previous)); then
                continue 2
            fi
        done
        columns[row]=$column
        place $((row + 1))
    done
}
place 0
echo "$solutions solutions"

section life
width=8
height=6
declare -A cell=()
for at in 1,0 2,1 0,2 1,2 2,2; do
    cell[$at]=1
done
step() {
    local -A next=()
    local x y dx dy around
    for ((y = 0; y < height; y++)); do
        for ((x = 0; x < width; x++)); do
            around=0
            for dy in -1 0 1; do
                for dx in -1 0 1; do
                    ((dx == 0 && dy == 0)) && continue
                    [[ -n ${cell[$(((x + dx + width) % width)),$(((y + dy + height) % height))]-} ]] &&
                        ((around++))
                done
            done
            if ((around == 3)) || [[ -n ${cell[$x,$y]-} && $around == 2 ]]; then
                next[$x,$y]=1
            fi
        done
    done
    cell=()
    local at
    for at in "${!next[@]}"; do
        cell[$at]=1
    done
}
for generation in 1 2 3; do
    step
done
for ((y = 0; y < height; y++)); do
    for ((x = 0; x < width; x++)); do
        if [[ -n ${cell[$x,$y]-} ]]; then printf '#'; else printf '.'; fi
    done
    echo
done

section calculator
calculate() {
    local -a stack=()
    local word top under
    for word; do
        case $word in
        [0-9]*)
            stack+=("$word")
            ;;
        [-+*/])
            top=${stack[-1]}
            under=${stack[-2]}
            unset 'stack[-1]' 'stack[-1]'
            stack+=($((under $word top)))
            ;;
        *)
            fail "word $word"
            ;;
        esac
    done
    echo "${stack[*]}"
}
set -f
calculate 3 4 + 2 '*'
calculate 100 7 / 3 -
calculate 5 1 2 + 4 '*' + 3 -
set +f

section ledger
ledger=$folder/ledger
echo 0 >"$ledger"
deposit() {
    local n balance
    for ((n = 0; n < $1; n++)); do
        {
            flock 9
            read -r balance <"$ledger"
            echo $((balance + 1)) >"$ledger"
        } 9>"$ledger.lock"
    done
}
for client in 1 2 3 4; do
    deposit 5 &
done
wait
cat "$ledger"

section words
declare -A words=()
while read -ra line; do
    for word in "${line[@]}"; do
        ((++words[$word]))
    done
done <<'END'
one two three two
three three one four
four four four five
END
for word in "${!words[@]}"; do
    printf '%d %s\n' "${words[$word]}" "$word"
done | sort -k1,1nr -k2

section fifos
mkfifo "$folder/requests" "$folder/answers"
(
    exec 5<>"$folder/requests" 6>"$folder/answers"
    while read -r request <&5; do
        [[ $request == end ]] && break
        echo "${#request} ${request^^}" >&6
    done
) &
exec 7>"$folder/requests" 8<"$folder/answers"
for request in one three eleven; do echo "$request" >&7; read -r answer <&8; echo "$answer"; done
echo end >&7; wait $!; echo "served: $?"; exec 7>&- 8<&-

section environment
echo "${BASH_VERSION%%.*} ${BASH_SOURCE##*/} $LINENO ${FUNCNAME-none}"
caller_name() { echo "${FUNCNAME[0]} from line ${BASH_LINENO[0]}"; }
caller_name
echo "$SHLVL" | grep -qE '^[0-9]+$' && echo "shell level"
((SECONDS >= 0)) && ((RANDOM >= 0)) && [[ $EPOCHSECONDS -gt 1000000 ]] && echo "special variables"
RANDOM=42; first=$RANDOM; RANDOM=42; [[ $first == "$RANDOM" ]] && echo "seeded"
times >/dev/null && echo "times"
hash -r; command -v sh
alias greeting='echo hello'; shopt -s expand_aliases
eval 'greeting'
cd / && cd "$folder" && [[ $OLDPWD == / ]] && echo "$(dirs -p | wc -l) directory"
pushd sub >/dev/null && popd >/dev/null && echo "pushed and popped"
history -c; set -o | wc -l
echo "$-" | tr -d 'u\n' | wc -c

cd /; rm -rf "$folder"; [[ -d $folder ]] || echo "removed"
echo "failures: $failures"
exit 0
