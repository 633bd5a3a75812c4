/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Functions that crash, and rings that the program writes to at random. */
#include "harness.h"

#include <sys/resource.h>

void throws(void);

static volatile int zero;

static void reads_nothing(void)
{
	*(volatile int *)(uintptr_t)(zero + 16) = 1;
}

static void divides(void)
{
	zero = 77 / zero;
}

static void is_no_instruction(void)
{
	__asm__ volatile("ud2");
}

static void aborts(void)
{
	abort();
}

static long overflow(long depth)
{
	volatile char big[65536];

	big[0] = (char)depth;
	return zero ? 0 : overflow(depth + 1) + big[0];
}

static void overflows(void)
{
	overflow(0);
}

static void ends_its_thread(void)
{
	pthread_exit(NULL);
}

static void goes_on_for_ever(void)
{
	for (;;)
		zero = 0;
}

struct crash {
	void (*function)(void);
	int signal;
};

static const struct crash crashes[] = {
	{ reads_nothing, SIGSEGV }, { divides, SIGFPE }, { is_no_instruction, SIGILL }, { aborts, SIGABRT },
	{ overflows, SIGSEGV }, { (void (*)(void))0x4242, SIGSEGV },
};

static void call_it(void *function)
{
	hanare_queue *queue = queue_of(NULL);
	int64_t result;

	hanare_wait(queue, hanare_call(queue, 0, function), &result, HANARE_FOREVER);
}

static void no_core(void)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	HOLDS(freopen("/dev/null", "w", stderr));
}

/* 2,048, and 10,240 with HANARE_TEST_FACTOR=5. */
static void functions_that_crash_end_the_program_by_their_signal(void)
{
	no_core();
	for (int i = 0; i < tasks / 32 * factor; i++) {
		const struct crash *crash = &crashes[(size_t)i % (sizeof(crashes) / sizeof(*crashes))];
		int status = status_of(call_it, (void *)crash->function);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != crash->signal)
			_exit(2 + i % 6);
	}
}

static void exceptions_that_leave_a_function_abort(void)
{
	int status;

	no_core();
	status = status_of(call_it, (void *)throws);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		_exit(2);
	status = status_of(call_it, (void *)ends_its_thread);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		_exit(3);
}

static char *page;
static pthread_t main_thread;

static void mend(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	if ((char *)info->si_addr != page + 123 || pthread_equal(pthread_self(), main_thread))
		_exit(3);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static long writes_there(void)
{
	page[123] = 77;
	return page[123];
}

static void a_fault_is_handled_in_the_function_that_made_it(void)
{
	struct sigaction action = { .sa_sigaction = mend, .sa_flags = SA_SIGINFO };
	hanare_queue *queue = queue_of(NULL);

	main_thread = pthread_self();
	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, NULL);
	HOLDS(page != MAP_FAILED && result_of(queue, hanare_call(queue, 0, writes_there)) == 77);
	hanare_queue_destroy(queue);
}

static void ends_while_it_runs(void *signal_number)
{
	hanare_queue *queue = queue_of(NULL);

	/* Shells have what they start in the background ignore SIGINT. */
	if (*(int *)signal_number != SIGKILL)
		signal(*(int *)signal_number, SIG_DFL);
	hanare_call(queue, 0, goes_on_for_ever);
	nap(1000000);
	kill(getpid(), *(int *)signal_number);
	pause();
}

static void an_endless_function_ends_with_the_program(void)
{
	static const int signals[] = { SIGTERM, SIGKILL, SIGINT };

	for (int i = 0; i < ROUNDS(30); i++) {
		int signal = signals[i % 3], status = status_of(ends_while_it_runs, &signal);

		HOLDS(WIFSIGNALED(status) && WTERMSIG(status) == signal);
	}
}

/* Of libhanare.a only: where piece lies, which the workers read. NULL: there are no more. */
uint64_t *hanare_test_words(hanare_queue *queue, unsigned int piece, size_t *words);

static uint64_t state = 1;

static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void corrupt(hanare_queue *queue)
{
	size_t words;
	uint64_t *piece = NULL, value = any();

	while (!(piece = hanare_test_words(queue, (unsigned int)any() % 8, &words)))
		;
	piece += any() % words;
	switch (value % 4) {
	case 0:
		__atomic_store_n(piece, any(), __ATOMIC_RELAXED);
		break;
	case 1:
		__atomic_fetch_xor(piece, UINT64_C(1) << any() % 64, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n(piece, value & 8 ? 0 : ~UINT64_C(0), __ATOMIC_RELAXED);
		break;
	default:
		__atomic_fetch_add(piece, any() % 3 - 1, __ATOMIC_RELAXED);
	}
}

/* Calls without arguments: what a worker finds may be any call that workers make, but of zeros. */
static void use_and_corrupt(void *seed)
{
	struct hanare_attributes attributes = attributes_of(8, 2);
	hanare_queue *queue, *other = queue_of(NULL);
	hanare_ticket ticket;
	int64_t result, end = now_ns() + SECOND / 5;

	state = *(uint64_t *)seed * 2654435769u + 1;
	attributes.flags = any() % 2 ? HANARE_MULTI_PRODUCER : 0;
	attributes.spin_ns = attributes.wait_spin_ns = any() % 2 ? 1000 : 50000;
	queue = queue_of(&attributes);
	while (now_ns() < end) {
		uint64_t flags = any() % 4 ? 0 : HANARE_NEXT;

		ticket = hanare_submit(queue, SYS_getppid | flags);
		corrupt(queue);
		if (ticket > 0 && !flags)
			hanare_wait(queue, ticket, &result, 1000000);
		if (any() % 8 == 0)
			hanare_next(queue, &(struct hanare_completion){ 0 }, 0);
		if (any() % 8 == 0 && ticket > 0)
			hanare_cancel(queue, ticket);
		/* Another queue is none the worse. */
		HOLDS(result_of(other, hanare_submit(other, SYS_getppid)) == getppid());
	}
	hanare_queue_destroy(queue);
	HOLDS(result_of(other, hanare_submit(other, SYS_getppid)) == getppid());
	hanare_queue_destroy(other);
}

static void words_written_at_random_harm_that_queue_only(void)
{
	for (uint64_t seed = 1; seed <= ROUNDS(20 * (uint64_t)factor); seed++) {
		int status = status_of(use_and_corrupt, &seed);

		if (status)
			fprintf(stderr, "seed %lu\n", (unsigned long)seed);
		HOLDS(status == 0);
	}
}

#define TEST(name) { #name, name }

const struct test fault_tests[] = {
	TEST(functions_that_crash_end_the_program_by_their_signal),
	TEST(exceptions_that_leave_a_function_abort),
	TEST(a_fault_is_handled_in_the_function_that_made_it),
	TEST(an_endless_function_ends_with_the_program),
	TEST(words_written_at_random_harm_that_queue_only),
	{ 0 },
};
