# OpenMP with one, two and four threads.
for threads in 1 2 4; do OMP_NUM_THREADS=$threads "$BUILD/openmp" 5; done
OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive "$BUILD/openmp" 5
OMP_NUM_THREADS=2 OMP_PROC_BIND=true "$BUILD/openmp" 5
