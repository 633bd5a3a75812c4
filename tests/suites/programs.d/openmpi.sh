# outside: Open MPI with two ranks, started by mpirun on Linux.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=/tmp HOME=$PWD
mpirun.openmpi --oversubscribe --bind-to none -n 2 $RUN "$BUILD/mpi.openmpi"
mpirun.openmpi --oversubscribe --bind-to none --mca btl self,tcp --mca btl_tcp_if_include lo -n 2 $RUN "$BUILD/mpi.openmpi"
