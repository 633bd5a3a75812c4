# MPICH, mpirun and two ranks.
mpirun.mpich -n 2 "$BUILD/mpi.mpich"
