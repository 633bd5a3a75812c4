# make -j2 of zlib and its own tests (from Debian's source package: tests/suites/programs --build).
cp -r "$BUILD"/zlib-*/. . && ./configure >configure.out 2>&1 || { tail -3 configure.out; exit 1; }
grep -c . configure.log >/dev/null && make -j2 >make.out 2>&1 || { tail -5 make.out; exit 1; }
make test 2>&1 | grep -i 'test ok'
ls ./*.a ./*.so* && sha256sum libz.so.1.* | cut -c1-64
