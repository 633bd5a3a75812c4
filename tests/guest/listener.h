/* What programs share that set filters with listeners (SECCOMP_RET_USER_NOTIF). */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#define FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define COUNT(all) (sizeof(all) / sizeof(*(all)))

/* What seccomp(2) says of a filter, which may have a listener. */
static inline int set_filter(struct sock_filter *all, size_t count, unsigned long flags)
{
	struct sock_fprog program = { count, all };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
