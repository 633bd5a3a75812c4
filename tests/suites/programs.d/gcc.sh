# gcc compiles and links a program of 10,000 lines in five files, and it runs.
python3 "$SUITES/src/many.py" .
wc -l ./*.c | tail -1
for part in 0 1 2 3; do gcc -O1 -c part$part.c || exit 1; done
gcc -O0 -g -fdebug-prefix-map="$PWD=." -c main.c && gcc -o many ./*.o && ./many
sha256sum many | cut -c1-64
