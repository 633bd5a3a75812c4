# bash with a script of 500 lines.
bash "$SUITES/src/features.bash"
