/*
 * Memory of the program that a device keeps: QEMU's teaching device, by VFIO. GROUP is the device's
 * group, DEVICE its name.
 *
 *   pinned-by-device round-trips GROUP DEVICE    DMA both ways, also after a fork
 *   pinned-by-device kept GROUP DEVICE           what becomes of memory that it keeps
 *   pinned-by-device registrations GROUP DEVICE COUNT
 *                                                so many, one after the other
 */
#include "pagemap.h"
#include "pinned.h"
#include <linux/vfio.h>
#include <sys/ioctl.h>

/* QEMU's docs/specs/edu.rst: registers of its DMA, and its buffer. */
enum { FROM = 0x80 / 8, TO = 0x88 / 8, COUNT = 0x90 / 8, COMMAND = 0x98 / 8, BUFFER = 0x40000, MOVED = 64 };
static const unsigned long iova = 0x100000;

static void dma(volatile unsigned long *registers, unsigned long from, unsigned long to, int to_memory)
{
	registers[FROM] = from;
	registers[TO] = to;
	registers[COUNT] = MOVED;
	registers[COMMAND] = to_memory ? 3 : 1;
	while (registers[COMMAND] & 1)
		usleep(100);
}

/* What the device reads at the start of the memory it writes a page further. */
static void round_trip(volatile unsigned long *registers, char *memory, const char *when)
{
	memset(memory + PAGE, 0, MOVED);
	dma(registers, iova, BUFFER, 0);
	dma(registers, BUFFER, iova + PAGE, 1);
	printf("%s: %s\n", when, memory + PAGE);
	fflush(stdout);
}

/* `rights`: VFIO_DMA_MAP_FLAG_* */
static int map_dma(int container, char *memory, size_t length, unsigned long at, int rights)
{
	struct vfio_iommu_type1_dma_map map = { .argsz = sizeof(map), .flags = rights, .vaddr = (unsigned long)memory, .iova = at, .size = length };

	return ioctl(container, VFIO_IOMMU_MAP_DMA, &map);
}

static int unmap_dma(int container, size_t length, unsigned long at)
{
	struct vfio_iommu_type1_dma_unmap map = { .argsz = sizeof(map), .iova = at, .size = length };

	return ioctl(container, VFIO_IOMMU_UNMAP_DMA, &map);
}

/* Memory that the device may read only: it reads what its owner writes, also after a fork. */
static void device_reads(int container, volatile unsigned long *registers)
{
	const unsigned long other_iova = 2 * iova;
	char *memory = fresh(16 * PAGE), *other = fresh(PAGE);
	pid_t child;

	strcpy(memory, "before it was mapped");
	child = fork();
	if (!child)
		pause();
	TELL(map_dma(container, memory, 16 * PAGE, iova, VFIO_DMA_MAP_FLAG_READ));
	TELL(map_dma(container, other, PAGE, other_iova, VFIO_DMA_MAP_FLAG_WRITE));
	for (int i = 0; i < 3; i++) {
		static const char *const texts[] = { "with a child from before", "with a child from after", "alone" };
		pid_t second = i == 1 ? fork() : -1;

		if (!second)
			pause();
		strcpy(memory, texts[i]);
		dma(registers, iova, BUFFER, 0);
		dma(registers, BUFFER, other_iova, 1);
		printf("read by the device: %s\n", other);
		fflush(stdout);
		if (i < 2) {
			kill(i ? second : child, SIGKILL);
			wait(NULL);
		}
	}
	TELL(unmap_dma(container, 16 * PAGE, iova));
	TELL(unmap_dma(container, PAGE, other_iova));
}

/* The device, by VFIO: `arguments` are its group and its name. */
struct device {
	int container, device;
	unsigned long offset, size;
	volatile unsigned long *registers;
};

static void map_registers(struct device *it)
{
	it->registers = mmap(NULL, it->size, RW, MAP_SHARED, it->device, it->offset);
	must(it->registers != MAP_FAILED, "mmap of the BAR");
}

static struct device open_device(char **arguments)
{
	struct vfio_region_info bar = { .argsz = sizeof(bar), .index = VFIO_PCI_BAR0_REGION_INDEX };
	struct vfio_region_info config = { .argsz = sizeof(config), .index = VFIO_PCI_CONFIG_REGION_INDEX };
	struct device it = { .container = open("/dev/vfio/vfio", O_RDWR) };
	int group = open(arguments[0], O_RDWR);
	unsigned short command;

	must(it.container >= 0 && group >= 0, "open");
	must(!ioctl(group, VFIO_GROUP_SET_CONTAINER, &it.container), "VFIO_GROUP_SET_CONTAINER");
	must(!ioctl(it.container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU), "VFIO_SET_IOMMU");
	it.device = ioctl(group, VFIO_GROUP_GET_DEVICE_FD, arguments[1]);
	must(it.device >= 0, "VFIO_GROUP_GET_DEVICE_FD");
	must(!ioctl(it.device, VFIO_DEVICE_GET_REGION_INFO, &bar) && !ioctl(it.device, VFIO_DEVICE_GET_REGION_INFO, &config), "regions");
	must(pread(it.device, &command, 2, config.offset + 4) == 2, "configuration");
	command |= 6; /* memory, bus master */
	must(pwrite(it.device, &command, 2, config.offset + 4) == 2, "configuration");
	it.offset = bar.offset;
	it.size = bar.size;
	map_registers(&it);
	return it;
}

enum { BOTH = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE };

static void round_trips(char **arguments)
{
	enum { LENGTH = 1 << 20, ROUNDS = 20 };
	struct device it = open_device(arguments);
	int container = it.container, worked = 0;
	volatile unsigned long *registers = it.registers;
	char *memory = fresh(LENGTH);
	pid_t child;

	strcpy(memory, "at first");
	TELL(map_dma(container, memory, LENGTH, iova, BOTH));
	round_trip(registers, memory, "mapped");
	strcpy(memory, "changed");
	round_trip(registers, memory, "written to");
	child = with_child(memory, memory + PAGE);
	strcpy(memory, "after the fork");
	round_trip(registers, memory, "forked");
	kill(child, SIGKILL);
	wait(NULL);
	strcpy(memory, "without the child");
	round_trip(registers, memory, "alone again");
	TELL(mprotect(memory, LENGTH, PROT_READ));
	TELL(mprotect(memory, LENGTH, RW));
	strcpy(memory, "protected for a while");
	round_trip(registers, memory, "protected");
	TELL(unmap_dma(container, LENGTH, iova));
	for (int i = 0; i < ROUNDS; i++) {
		char *other = fresh(16 * PAGE);

		strcpy(other, "other memory");
		if (!map_dma(container, other, 16 * PAGE, iova, BOTH)) {
			dma(registers, iova, BUFFER, 0);
			dma(registers, BUFFER, iova + PAGE, 1);
			worked += !strcmp(other + PAGE, "other memory");
			must(!unmap_dma(container, 16 * PAGE, iova), "VFIO_IOMMU_UNMAP_DMA");
		}
		munmap(other, 16 * PAGE);
	}
	printf("%d of %d others\n", worked, ROUNDS);
	device_reads(container, registers);
}

/* How many pages of memory that is new the device has not changed. */
static void unchanged(struct device *it, const char *when)
{
	enum { LENGTH = 8 << 20 };
	char *memory = fresh(LENGTH);
	long kept = 0;

	memset(memory, 'n', LENGTH);
	dma(it->registers, BUFFER, iova + PAGE, 1);
	for (long at = 0; at < LENGTH; at += PAGE)
		kept += memory[at] == 'n';
	printf("%s: %ld of %ld pages are as they were\n", when, kept, LENGTH / PAGE);
	fflush(stdout);
	munmap(memory, LENGTH);
}

/* What becomes of memory while the device keeps it. */
static void kept(char **arguments)
{
	enum { LENGTH = 64 * PAGE };
	struct device it = open_device(arguments);
	char *memory = fresh(LENGTH), *moved = fresh(LENGTH);
	int references = open("/proc/self/clear_refs", O_WRONLY), file = memfd_create("data", 0), status;
	char words[4][32];
	pid_t child;

	must(pwrite(file, "by a call", 10, 0) == 10, "pwrite");
	own_map = open("/proc/self/pagemap", O_RDONLY);
	strcpy(memory, "at first");
	TELL(map_dma(it.container, memory, LENGTH, iova, BOTH));
	round_trip(it.registers, memory, "mapped");
	/* A child that is to have none of it. */
	TELL(madvise(memory, LENGTH, MADV_DONTFORK));
	child = fork();
	if (!child) {
		memory[0] = 'x';
		_exit(0);
	}
	must(waitpid(child, &status, 0) == child, "waitpid");
	printf("the child: signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	strcpy(memory, "not of the child");
	round_trip(it.registers, memory, "without a copy");
	/* Writes of calls are seen, and those of the device are not. */
	must(write(references, "4", 1) == 1, "clear_refs");
	printf("written: %d %d\n", count_dirty(memory, 1), count_dirty(memory + 2 * PAGE, 1));
	TELL(pread(file, memory + 2 * PAGE, 10, 0));
	dma(it.registers, BUFFER, iova + PAGE, 1);
	printf("by the device %d, by a call %d, by nobody %d\n", count_dirty(memory + PAGE, 1), count_dirty(memory + 2 * PAGE, 1), count_dirty(memory + 3 * PAGE, 1));
	round_trip(it.registers, memory, "cleared");
	/* It goes with the memory. */
	must(mremap(memory, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved, "mremap");
	strcpy(moved, "moved");
	round_trip(it.registers, moved, "moved");
	/* New pages are not those that the device has. */
	TELL(madvise(moved, LENGTH, MADV_DONTNEED));
	dma(it.registers, BUFFER, iova + PAGE, 1);
	printf("given back: \"%s\" \"%s\"\n", moved, moved + PAGE);
	unchanged(&it, "given back");
	munmap(moved, LENGTH);
	unchanged(&it, "unmapped");
	TELL(unmap_dma(it.container, LENGTH, iova));
	/* Nor are those of the next program. */
	memory = fresh(LENGTH);
	TELL(map_dma(it.container, memory, LENGTH, iova, BOTH));
	fflush(stdout);
	sprintf(words[0], "%d", it.container);
	sprintf(words[1], "%d", it.device);
	sprintf(words[2], "%lu", it.offset);
	sprintf(words[3], "%lu", it.size);
	fcntl(it.device, F_SETFD, 0);
	execl("/proc/self/exe", "pinned-by-device", "replaced-program", words[0], words[1], words[2], words[3], NULL);
	must(0, "execl");
}

static void replaced_program(char **arguments)
{
	struct device it = { .container = atoi(arguments[0]), .device = atoi(arguments[1]),
			     .offset = strtoul(arguments[2], NULL, 10), .size = strtoul(arguments[3], NULL, 10) };

	map_registers(&it);
	unchanged(&it, "replaced");
	TELL(unmap_dma(it.container, 64 * PAGE, iova));
}

/* Registrations one after the other, of memory that is new each time. */
static void registrations(char **arguments)
{
	struct device it = open_device(arguments);
	long count = atol(arguments[2]), done = 0;

	for (long i = 0; i < count; i++) {
		char *memory = fresh(16 * PAGE);

		memory[0] = 'r';
		done += !map_dma(it.container, memory, 16 * PAGE, iova, BOTH) && !unmap_dma(it.container, 16 * PAGE, iova);
		munmap(memory, 16 * PAGE);
	}
	printf("%s\n", done == count ? "all" : "not all");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*body)(char **arguments);
	} cases[] = { { "round-trips", round_trips }, { "kept", kept }, { "replaced-program", replaced_program },
		      { "registrations", registrations } };

	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].body(argv + 2);
			return 0;
		}
	fprintf(stderr, "pinned-by-device: no such case\n");
	return 1;
}
