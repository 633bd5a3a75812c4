# Boehm's collector in incremental mode, which relies on soft-dirty bits: nothing that lives is
# lost.
for n in 1 2 3; do "$BUILD/incremental"; done
