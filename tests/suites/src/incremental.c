/*
 * Boehm's collector in incremental mode: it collects in small steps while the program runs, and
 * learns from soft-dirty bits of the pages (/proc/self/pagemap, clear_refs) or from faults which
 * objects were changed meanwhile. One that is missed loses what it alone refers to. Built trees are
 * kept only by pointers that are stored into old objects, by the program and by read(2).
 */
#include <gc/gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node {
	struct node *left, *right;
	unsigned long mark, check;
};

static struct node *build(int depth, unsigned long mark)
{
	struct node *n = GC_MALLOC(sizeof(*n));

	n->mark = mark;
	n->check = ~mark;
	if (depth) {
		n->left = build(depth - 1, 2 * mark);
		n->right = build(depth - 1, 2 * mark + 1);
	}
	return n;
}

static long wrong(const struct node *n, int depth, unsigned long mark)
{
	if (!n || n->mark != mark || n->check != ~mark)
		return 1;
	return depth ? wrong(n->left, depth - 1, 2 * mark) + wrong(n->right, depth - 1, 2 * mark + 1) : 0;
}

int main(void)
{
	enum { OLD = 4000, ROUNDS = 60, DEPTH = 7 };
	struct node **old;
	long bad = 0;
	int pipes[2], i, round;

	GC_INIT();
	GC_enable_incremental();
	printf("incremental: %d\n", GC_is_incremental_mode());
	if (pipe(pipes))
		return 1;
	old = GC_MALLOC(OLD * sizeof(*old));
	for (i = 0; i < OLD; i++)
		old[i] = build(0, i);
	srandom(1);
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < 40; i++) {
			struct node *to = old[random() % OLD], *tree = build(DEPTH, 1);

			/*
			 * The only pointer to the tree goes into an old object; every fourth one
			 * Linux writes there.
			 */
			if (i % 4) {
				to->left = tree;
			} else {
				if (write(pipes[1], &tree, sizeof(tree)) != sizeof(tree))
					return 1;
				tree = NULL;
				if (read(pipes[0], &to->left, sizeof(tree)) != sizeof(tree)) {
					/*
					 * Where soft-dirty bits are missing, by which the collector
					 * lets Linux write.
					 */
					perror("read");
					return 1;
				}
			}
		}
		for (i = 0; i < 2000; i++)
			GC_MALLOC(16 + random() % 500);
		for (i = 0; i < OLD; i++)
			if (old[i]->left)
				bad += wrong(old[i]->left, DEPTH, 1);
	}
	printf("collections: %s\n", GC_get_gc_no() > 3 ? "several" : "few");
	printf("lost: %ld\n", bad);
	return bad != 0;
}
