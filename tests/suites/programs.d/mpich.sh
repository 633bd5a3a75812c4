# outside: MPICH with two ranks, started by mpirun on Linux.
mpirun.mpich -n 2 $RUN "$BUILD/mpi.mpich"
