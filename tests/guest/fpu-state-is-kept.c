/* x87, SSE, AVX state and MXCSR across system calls, page faults, signals and preemption. */
#include "guest.h"
#include <cpuid.h>

static volatile int alarms;
static int avx;

static void clobber(int signal)
{
	unsigned mxcsr = 0x1f80;

	(void)signal;
	alarms++;
	asm volatile("ldmxcsr %0; pxor %%xmm0, %%xmm0; pxor %%xmm7, %%xmm7; pcmpeqd %%xmm15, %%xmm15; fninit"
		     : : "m"(mxcsr) : "xmm0", "xmm7", "xmm15");
	if (avx)
		asm volatile("vpcmpeqd %%xmm1, %%xmm1, %%xmm1; vzeroall" : : : "memory");
}

/* Loads a pattern into every register, does something, and compares. */
static int survives(void (*something)(void))
{
	static unsigned char in[16][32] __attribute__((aligned(32))), out[16][32] __attribute__((aligned(32)));
	unsigned mxcsr_in = 0x5f80, mxcsr_out, usual = 0x1f80; /* round up */
	unsigned short control_in = 0x0c7f, control_out;
	double third = 1.0 / 3, back;
	int width = avx ? 32 : 16, bad = 0;

	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 32; j++)
			in[i][j] = i * 32 + j + 1;
	memset(out, 0, sizeof(out));
	asm volatile("ldmxcsr %0; fldcw %1; fldl %2" : : "m"(mxcsr_in), "m"(control_in), "m"(third));
#define EACH(op, array, dir)                                                               \
	op(0, array) op(1, array) op(2, array) op(3, array) op(4, array) op(5, array)      \
	op(6, array) op(7, array) op(8, array) op(9, array) op(10, array) op(11, array)    \
	op(12, array) op(13, array) op(14, array) op(15, array)
#define LOAD_Y(n, a) "vmovdqa " #n "*32(%[in]), %%ymm" #n "\n"
#define SAVE_Y(n, a) "vmovdqa %%ymm" #n ", " #n "*32(%[out])\n"
#define LOAD_X(n, a) "movdqa " #n "*32(%[in]), %%xmm" #n "\n"
#define SAVE_X(n, a) "movdqa %%xmm" #n ", " #n "*32(%[out])\n"
#define ALL "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "xmm0", "xmm1",  \
	"xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",   \
	"xmm13", "xmm14", "xmm15"
	/* `something` must not use vector registers itself: bare system calls and loads only. */
	if (avx)
		asm volatile("sub $128, %%rsp\n" EACH(LOAD_Y, in, ) "call *%[f]\n" EACH(SAVE_Y, out, )
			     "add $128, %%rsp\n"
			     : : [in] "b"(in), [out] "r"((char *)out), [f] "r"(something) : ALL);
	else
		asm volatile("sub $128, %%rsp\n" EACH(LOAD_X, in, ) "call *%[f]\n" EACH(SAVE_X, out, )
			     "add $128, %%rsp\n"
			     : : [in] "b"(in), [out] "r"((char *)out), [f] "r"(something) : ALL);
	asm volatile("stmxcsr %0; fnstcw %1; fstpl %2; ldmxcsr %3; fninit"
		     : "=m"(mxcsr_out), "=m"(control_out), "=m"(back) : "m"(usual));
	for (int i = 0; i < 16; i++)
		bad += memcmp(in[i], out[i], width) != 0;
	return bad == 0 && (mxcsr_out & ~0x3f) == mxcsr_in && control_out == control_in && back == third;
}

static char *fresh;

static long bare(long nr, long a, long b, long c)
{
	long result;

	asm volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
}

__attribute__((target("general-regs-only"))) static void nothing(void) { }
__attribute__((target("general-regs-only"))) static void local_call(void)
{
	for (int i = 0; i < 100; i++)
		bare(SYS_getpid, 0, 0, 0);
}
__attribute__((target("general-regs-only"))) static void delegated_call(void)
{
	for (int i = 0; i < 20; i++)
		bare(SYS_getppid, 0, 0, 0), bare(SYS_access, (long)"/", 0, 0);
}
__attribute__((target("general-regs-only"))) static void page_fault(void)
{
	for (int i = 0; i < 100; i++)
		fresh[i * PAGE] = 1;
}
__attribute__((target("general-regs-only"))) static void signal_now(void)
{
	bare(SYS_kill, bare(SYS_getpid, 0, 0, 0), SIGUSR1, 0);
}
__attribute__((target("general-regs-only"))) static void timers(void)
{
	alarms = 0;
	while (alarms < 5)
		;
}

int main(void)
{
	unsigned a, b, c, d;
	struct itimerval timer = { .it_value.tv_usec = 50000, .it_interval.tv_usec = 50000 };

	__cpuid(1, a, b, c, d);
	avx = (c >> 27 & 1) && (c >> 28 & 1);
	fresh = mmap(NULL, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGUSR1, clobber);
	signal(SIGALRM, clobber);
	printf("avx %d\n", avx);
	TELL(survives(nothing));
	TELL(survives(local_call));
	TELL(survives(delegated_call));
	TELL(survives(page_fault));
	TELL(survives(signal_now));
	TELL(alarms);
	setitimer(ITIMER_REAL, &timer, NULL);
	TELL(survives(timers));
	memset(&timer, 0, sizeof(timer));
	setitimer(ITIMER_REAL, &timer, NULL);
	return 0;
}
