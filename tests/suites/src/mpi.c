/* MPI: point to point in several sizes, collectives, and a sum that both ranks agree on. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	static const int sizes[] = { 0, 1, 100, 4096, 70000, 1 << 20 };
	int rank, ranks, bad = 0;
	long sum, mine;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		int size = sizes[s], other = rank ^ 1;
		unsigned char *out = malloc(size + 1), *in = calloc(1, size + 1);

		for (int round = 0; round < 5; round++) {
			for (int n = 0; n < size; n++)
				out[n] = (unsigned char)(n * 7 + rank + round);
			MPI_Sendrecv(out, size, MPI_BYTE, other, round, in, size, MPI_BYTE, other, round,
				     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			for (int n = 0; n < size; n++)
				bad += in[n] != (unsigned char)(n * 7 + other + round);
		}
		free(out);
		free(in);
	}
	mine = 1000 + rank;
	MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int n = 0; n < 50; n++)
		MPI_Barrier(MPI_COMM_WORLD);
	long all[16] = { 0 };
	MPI_Gather(&mine, 1, MPI_LONG, all, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	MPI_Bcast(all, 16, MPI_LONG, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("ranks %d sum %ld gathered %ld %ld\n", ranks, sum, all[0], all[1]);
	int all_bad;
	MPI_Reduce(&bad, &all_bad, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("bad bytes %d\n", all_bad);
	MPI_Finalize();
	return bad != 0;
}
