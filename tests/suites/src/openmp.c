/* OpenMP: reductions, tasks, locks and nested regions; the sums do not depend on the order. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static long fib(int n)
{
	long a, b;

	if (n < 2)
		return n;
#pragma omp task shared(a) if (n > 12)
	a = fib(n - 1);
#pragma omp task shared(b) if (n > 12)
	b = fib(n - 2);
#pragma omp taskwait
	return a + b;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20;
	long total = 0, critical = 0, atomic = 0, tasks = 0;
	double sum = 0;
	omp_lock_t lock;

	omp_init_lock(&lock);
	for (int round = 0; round < rounds; round++) {
#pragma omp parallel for reduction(+ : total) schedule(dynamic, 100)
		for (long n = 0; n < 20000; n++)
			total += n * n % 7;
#pragma omp parallel for reduction(+ : sum) schedule(static)
		for (long n = 1; n < 20000; n++)
			sum += 1.0 / (double)(1 << (n % 20));
#pragma omp parallel for
		for (int n = 0; n < 200; n++) {
#pragma omp critical
			critical += n;
#pragma omp atomic
			atomic += 2 * n;
			omp_set_lock(&lock);
			total++;
			omp_unset_lock(&lock);
		}
#pragma omp parallel
#pragma omp single
		tasks += fib(18);
	}
	int most = 0;
#pragma omp parallel reduction(max : most)
	{
		for (int n = 0; n < 50; n++) {
#pragma omp barrier
		}
		most = omp_get_num_threads();
	}
	printf("threads %d total %ld sum %.6f critical %ld atomic %ld tasks %ld\n", most, total, sum,
	       critical, atomic, tasks);
	return 0;
}
