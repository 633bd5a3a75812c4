/* Memory that an RDMA device keeps, of a program that forks: what it writes, and what it sends. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, ROUNDS = 200 };

static struct ibv_context *device;
static struct ibv_pd *domain;
static struct ibv_cq *completions;

static void must(int done, const char *what)
{
	if (done)
		return;
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static char *anonymous(size_t length, int flags)
{
	char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED, "mmap");
	return at;
}

static struct ibv_mr *registered(void *at, size_t length, int access)
{
	struct ibv_mr *region = ibv_reg_mr(domain, at, length, access);

	must(region != NULL, "ibv_reg_mr");
	return region;
}

static struct ibv_qp *pair(void)
{
	struct ibv_qp_init_attr wanted = { .send_cq = completions, .recv_cq = completions, .qp_type = IBV_QPT_RC,
					   .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *made = ibv_create_qp(domain, &wanted);

	must(made != NULL, "ibv_create_qp");
	return made;
}

static void connect_to(struct ibv_qp *one, struct ibv_qp *other)
{
	struct ibv_qp_attr begin = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				     .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE };
	struct ibv_qp_attr receive = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = other->qp_num,
				       .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				       .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 1 } } };
	struct ibv_qp_attr send = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };

	must(!ibv_query_gid(device, 1, 1, &receive.ah_attr.grh.dgid), "ibv_query_gid");
	must(!ibv_modify_qp(one, &begin, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	must(!ibv_modify_qp(one, &receive, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	must(!ibv_modify_qp(one, &send, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			    IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

/* The device writes one buffer into the other. */
static void write_by_device(struct ibv_qp *qp, struct ibv_mr *from, struct ibv_mr *to)
{
	struct ibv_sge source = { .addr = (unsigned long)from->addr, .length = PAGE, .lkey = from->lkey };
	struct ibv_send_wr request = { .sg_list = &source, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				       .wr.rdma = { .remote_addr = (unsigned long)to->addr, .rkey = to->rkey } }, *bad;
	struct ibv_wc done;

	must(!ibv_post_send(qp, &request, &bad), "ibv_post_send");
	while (!ibv_poll_cq(completions, 1, &done))
		;
	printf("%s, ", ibv_wc_status_str(done.status));
}

int main(void)
{
	static const char *const steps[] = { "alone", "forked, written by the parent", "the child is gone", "forked, written by both" };
	struct ibv_device **devices = ibv_get_device_list(NULL);
	char *source = anonymous(PAGE, MAP_PRIVATE), *target = anonymous(PAGE, MAP_PRIVATE);
	struct ibv_mr *from, *to;
	struct ibv_qp *one, *other;

	must(devices && devices[0], "no device");
	must((device = ibv_open_device(devices[0])) && (domain = ibv_alloc_pd(device)), "ibv_open_device");
	must((completions = ibv_create_cq(device, 16, NULL, NULL, 0)) != NULL, "ibv_create_cq");
	registered(memset(malloc(1 << 20), 1, 1 << 20), 1 << 20, IBV_ACCESS_LOCAL_WRITE);
	registered(anonymous(1 << 20, MAP_SHARED), 1 << 20, IBV_ACCESS_LOCAL_WRITE);
	source[0] = target[0] = 0;
	from = registered(source, PAGE, IBV_ACCESS_LOCAL_WRITE);
	to = registered(target, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	one = pair();
	other = pair();
	connect_to(one, other);
	connect_to(other, one);
	for (int step = 0; step < 4; step++) {
		int ends[2], status;
		pid_t child = 0;

		must(!pipe(ends), "pipe");
		if (step % 2) {
			fflush(stdout);
			child = fork();
			if (!child) {
				char end;

				if (step == 3)
					target[1] = 9;
				close(ends[1]);
				_exit(read(ends[0], &end, 1) ? 1 : target[0]);
			}
			usleep(200000);
			source[2] = target[2] = step;
		}
		source[0] = 10 + step;
		printf("%s: ", steps[step]);
		write_by_device(one, from, to);
		printf("the buffer has %d", target[0]);
		close(ends[0]);
		close(ends[1]);
		if (child && waitpid(child, &status, 0) == child)
			printf(", the child has %d", WEXITSTATUS(status));
		printf("\n");
	}
	for (int i = 0; i < ROUNDS; i++) {
		char *other_memory = anonymous(16 * PAGE, MAP_PRIVATE);

		must(!ibv_dereg_mr(registered(other_memory, 16 * PAGE, IBV_ACCESS_LOCAL_WRITE)), "ibv_dereg_mr");
		munmap(other_memory, 16 * PAGE);
	}
	printf("%d registrations\n", ROUNDS);
	return 0;
}
