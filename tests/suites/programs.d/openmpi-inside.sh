# Open MPI, mpirun and two ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=/tmp HOME=$PWD
mpirun.openmpi --oversubscribe --bind-to none -n 2 "$BUILD/mpi.openmpi"
