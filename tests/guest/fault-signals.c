/* SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP: siginfo, ucontext, a handler that mends and resumes. */
#include "guest.h"

static char *page;
static volatile int faults;

static void repair(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	faults++;
	printf("%s code %d offset %ld trap %lld error %lld cr2 %ld flags %lx\n", sigabbrev_np(signal),
	       info->si_code, (long)((char *)info->si_addr - page),
	       c->uc_mcontext.gregs[REG_TRAPNO], c->uc_mcontext.gregs[REG_ERR],
	       (long)(c->uc_mcontext.gregs[REG_CR2] - (long)page), c->uc_flags & 0);
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static void skip(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	unsigned char *rip = (unsigned char *)c->uc_mcontext.gregs[REG_RIP];

	printf("%s code %d trap %lld error %lld at the instruction: %d, rbx %llx\n",
	       sigabbrev_np(signal), info->si_code, c->uc_mcontext.gregs[REG_TRAPNO],
	       c->uc_mcontext.gregs[REG_ERR], info->si_addr == rip, c->uc_mcontext.gregs[REG_RBX]);
	/* ud2 and div %ecx have two bytes; int3 is over; the rest: to the address in r12. */
	if (signal == SIGILL || signal == SIGFPE)
		c->uc_mcontext.gregs[REG_RIP] += 2;
	else if (signal == SIGSEGV || signal == SIGBUS)
		c->uc_mcontext.gregs[REG_RIP] = c->uc_mcontext.gregs[REG_R12];
	c->uc_mcontext.gregs[REG_RAX] = 77;
}

/* An instruction, and its trap as a handler sees it. The handler goes on at the address in r12. */
#define TRAPS(name, code)                                                                                               \
	static void name(void)                                                                                          \
	{                                                                                                               \
		asm volatile("mov %%rsp, %%r13; lea 99f(%%rip), %%r12; " code "; 99: mov %%r13, %%rsp; pushf;"          \
			     "andl $~0x100, (%%rsp); popf"                                                              \
			     : : : "rax", "rcx", "rdx", "r12", "r13", "memory", "cc");                                  \
	}

TRAPS(int1, ".byte 0xf1")
TRAPS(stepped, "pushf; orl $0x100, (%%rsp); popf; nop; nop")
TRAPS(breakpoint_of_two_bytes, ".byte 0xcd, 3")
TRAPS(gate_of_the_kernel, ".byte 0xcd, 0x0e")
TRAPS(no_gate, ".byte 0xcd, 0x81")
TRAPS(halt, "hlt")
TRAPS(port, "out %%al, $0x80")
/* Local descriptors are there for no selector, whatever lies at low addresses. */
TRAPS(local_selector, "mov $0x1234, %%eax; mov %%eax, %%ds")
TRAPS(local_code, "push $0x1007; push %%r12; lretq")
TRAPS(wrong_selector, "mov $0x1231, %%eax; mov %%eax, %%es")
TRAPS(behind_user_memory, "movabs $0x7ffffffff000, %%rax; mov (%%rax), %%rax")
TRAPS(before_user_memory, "movabs $0xffff800000000000, %%rax; mov %%rax, (%%rax)")
TRAPS(jump_into_the_kernel, "mov $0xffffffff81000000, %%rax; jmp *%%rax")
TRAPS(jump_behind_user_memory, "movabs $0x7ffffffff000, %%rax; jmp *%%rax")
TRAPS(jump_nowhere, "movabs $0x8000000000000000, %%rax; jmp *%%rax")
TRAPS(stack_nowhere, "xor %%esp, %%esp; push %%rax")

static void tells(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	greg_t *r = c->uc_mcontext.gregs;
	unsigned long address = (unsigned long)info->si_addr;

	if (address - 1 >= 0x7fffffffe000)
		printf("%s code %d trap %lld error %llx address %lx\n", sigabbrev_np(signal), info->si_code, r[REG_TRAPNO],
		       r[REG_ERR], address);
	else
		printf("%s code %d trap %lld error %llx at the instruction: %d\n", sigabbrev_np(signal), info->si_code,
		       r[REG_TRAPNO], r[REG_ERR], address == (unsigned long)r[REG_RIP]);
	r[REG_RIP] = r[REG_R12];
	r[REG_EFL] &= ~0x100;
}

static void goes(int signal, siginfo_t *info, void *context)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = ((ucontext_t *)context)->uc_mcontext.gregs[REG_R13];
}

/* A handler has its program go on at `place`. */
static void go_on_at(unsigned long place)
{
	register unsigned long at asm("r13") = place;

	asm volatile("lea 1f(%%rip), %%r12; syscall; 1:"
		     : : "a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1), "r"(at) : "rcx", "r11", "r12", "memory");
}

/* Each kind of trap in the frame of its handler, and in a frame after it. */
static void traps(void)
{
	static void (*const all[])(void) = {
		int1, stepped, breakpoint_of_two_bytes, gate_of_the_kernel, no_gate, halt, port, local_selector, local_code,
		wrong_selector, behind_user_memory, before_user_memory, jump_into_the_kernel, jump_behind_user_memory,
		jump_nowhere, stack_nowhere,
	};
	static const unsigned long places[] = { 0xffffffff81000000, 0x7ffffffff000, 0x8000000000000000, 0x123 };
	static char stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = tells, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	int signals[] = { SIGSEGV, SIGBUS, SIGTRAP, SIGUSR1 };

	sigaltstack(&alternate, NULL);
	for (int i = 0; i < 4; i++)
		sigaction(signals[i], &action, NULL);
	for (unsigned int i = 0; i < sizeof(all) / sizeof(*all); i++) {
		printf("%u: ", i);
		all[i]();
	}
	action.sa_sigaction = goes;
	sigaction(SIGUSR1, &action, NULL);
	for (unsigned int i = 0; i < sizeof(places) / sizeof(*places); i++)
		go_on_at(places[i]);
}

static volatile int caught, code;

static void catches(int signal, siginfo_t *info, void *context)
{
	caught = caught * 100 + signal;
	code = info->si_code;
}

/* A frame that cannot be written is a SIGSEGV, which may have a handler on another stack. */
static void unwritable_frame(void)
{
	struct sigaction action = { .sa_sigaction = catches, .sa_flags = SA_SIGINFO };
	stack_t stack = { .ss_sp = (void *)page, .ss_size = PAGE };

	mprotect((void *)page, PAGE, PROT_READ);
	sigaction(SIGSEGV, &action, NULL);
	action.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR1, &action, NULL);
	sigaltstack(&stack, NULL);
	raise(SIGUSR1);
	printf("frame: caught %d, code %d\n", caught, code);
}

/* A fault's signal that a process sends, and that is blocked. */
static void blocked_fault(void)
{
	struct sigaction action = { .sa_sigaction = catches, .sa_flags = SA_SIGINFO };
	int signals[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL }, i;
	sigset_t set, pending;

	for (i = 0; i < 4; i++) {
		sigaction(signals[i], &action, NULL);
		sigemptyset(&set);
		sigaddset(&set, signals[i]);
		sigprocmask(SIG_BLOCK, &set, NULL);
		caught = 0;
		kill(getpid(), signals[i]);
		getppid();
		sigpending(&pending);
		printf("blocked: caught %d, pending %d", caught, sigismember(&pending, signals[i]));
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		printf(", then caught %d\n", caught);
	}
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = repair, .sa_flags = SA_SIGINFO };
	long result;

	setvbuf(stdout, NULL, _IONBF, 0);
	page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &action, NULL);
	page[123] = 5;
	printf("resumed: %d after %d\n", page[123], faults);
	mprotect(page, PAGE, PROT_READ);
	page[200] = 6;
	printf("resumed: %d after %d\n", page[200], faults);
	mprotect(page, PAGE, PROT_NONE);
	printf("read: %d after %d\n", page[200], faults);

	action.sa_sigaction = skip;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
	asm volatile("mov $0xabcdef, %%rbx; xor %%eax, %%eax; ud2" : "=a"(result) : : "rbx");
	printf("illegal: %ld\n", result);
	asm volatile("mov $0x1234, %%rbx; xor %%edx, %%edx; xor %%ecx, %%ecx; mov $1, %%eax; div %%ecx"
		     : "=a"(result) : : "rbx", "rcx", "rdx");
	printf("division: %ld\n", result);
	asm volatile("mov $3, %%rbx; xor %%eax, %%eax; int3" : "=a"(result) : : "rbx");
	printf("breakpoint: %ld\n", result);
	/* A non-canonical address: general protection. */
	asm volatile("mov $4, %%rbx; lea 1f(%%rip), %%r12; movabs $0x8000000000000000, %%rax\n"
		     "mov (%%rax), %%rax\n1:" : "=a"(result) : : "rbx", "r12", "memory");
	printf("non-canonical: %ld\n", result);
	asm volatile("mov $5, %%rbx; lea 1f(%%rip), %%r12; cli\n1:" : "=a"(result) : : "rbx", "r12");
	printf("privileged: %ld\n", result);
	/* A jump into the kernel half and to NULL. */
	asm volatile("mov $6, %%rbx; lea 1f(%%rip), %%r12; xor %%eax, %%eax; jmp *%%rax\n1:"
		     : "=a"(result) : : "rbx", "r12");
	printf("jump to 0: %ld\n", result);
	asm volatile("mov $7, %%rbx; lea 1f(%%rip), %%r12; movabs $0xffffffff81000000, %%rax\n"
		     "mov (%%rax), %%rax\n1:" : "=a"(result) : : "rbx", "r12", "memory");
	printf("kernel address: %ld\n", result);
	traps();
	unwritable_frame();
	blocked_fault();
	return 0;
}
