/*
 * Memory of devices, mapped: what is written is read again by every way to it.
 *
 *   mapped-devices CASE [ARGUMENT...]     one case of `cases`, each for a kind of device
 */
#include "guest.h"
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/dma-heap.h>
#include <linux/fb.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/udmabuf.h>
#include <linux/videodev2.h>
#include <net/if.h>
#include <poll.h>
#include <sound/asound.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define RW (PROT_READ | PROT_WRITE)

/* Of drm/drm.h and drm/drm_mode.h, which no package of the C library brings. */
struct drm_version {
	int major, minor, patch;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};
struct drm_mode_create_dumb {
	unsigned height, width, bpp, flags, handle, pitch;
	unsigned long size;
};
struct drm_mode_map_dumb {
	unsigned handle, pad;
	unsigned long offset;
};
#define DRM_IOCTL_VERSION _IOWR('d', 0x00, struct drm_version)
#define DRM_IOCTL_MODE_CREATE_DUMB _IOWR('d', 0xb2, struct drm_mode_create_dumb)
#define DRM_IOCTL_MODE_MAP_DUMB _IOWR('d', 0xb3, struct drm_mode_map_dumb)

static int opened(const char *path)
{
	int fd = open(path, O_RDWR | O_SYNC);

	if (fd < 0 && errno == EACCES)
		fd = open(path, O_RDONLY);
	if (fd < 0) {
		printf("open %s: %s\n", path, strerrorname_np(errno));
		exit(2);
	}
	return fd;
}

static void must(int done, const char *what)
{
	if (done)
		return;
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(3);
}

/* A mapping whose first and last byte can be accessed. */
static void *mapped(int fd, size_t length, int prot, int flags, off_t offset)
{
	char *at = mmap(NULL, length, prot, flags, fd, offset);
	const char *first, *last;

	must(at != MAP_FAILED, "mmap");
	first = touch(at, prot & PROT_WRITE);
	if (strcmp(first, "fine"))
		printf("first byte: %s\n", first);
	last = touch(at + length - 1, prot & PROT_WRITE);
	if (strcmp(last, "fine"))
		printf("last byte: %s\n", last);
	if (strcmp(first, "fine") || strcmp(last, "fine"))
		exit(4);
	return at;
}

static void *shared(int fd, size_t length, off_t offset)
{
	return mapped(fd, length, RW, MAP_SHARED, offset);
}

static unsigned pattern(unsigned i)
{
	return i * 2654435761u;
}

/* Memory behind a BAR, by two mappings, and by those of a child. */
static void bar(char **arguments)
{
	size_t length = strtoul(arguments[1], NULL, 0), words = length / sizeof(unsigned), wrong = 0;
	int fd = opened(arguments[0]);
	volatile unsigned *one = shared(fd, length, 0), *other = shared(fd, length, 0);

	for (size_t i = 0; i < words; i += 257)
		one[i] = pattern(i);
	for (size_t i = 0; i < words; i += 257)
		wrong += one[i] != pattern(i) || other[i] != pattern(i);
	printf("%zu words are wrong\n", wrong);
	fflush(stdout);
	if (!fork()) {
		printf("a child sees %#x\n", one[257]);
		one[0] = 4711;
		_exit(0);
	}
	wait(NULL);
	printf("its parent sees %u, by another mapping %u\n", one[0], other[0]);
	TELL(mprotect((void *)one, PAGE, PROT_READ));
	TOUCH(one, 1);
	TELL(mprotect((void *)one, PAGE, RW));
	TOUCH(one, 1);
	one[0] = 4712;
	printf("%u\n", other[0]);
	TELL(munmap((void *)one, length));
	TOUCH(one, 0);
}

/* Registers: QEMU's teaching device. */
static void edu(char **arguments)
{
	volatile unsigned *registers = shared(opened(arguments[0]), PAGE, 0);

	registers[1] = 0x12345678;
	printf("identification %#x, liveness %#x\n", registers[0], registers[1]);
	registers[2] = 5;
	while (registers[8] & 1)
		;
	printf("factorial of 5: %u\n", registers[2]);
}

/* A private mapping of a BAR: live until it is written. */
static void private(char **arguments)
{
	int fd = opened(arguments[0]);
	volatile unsigned *live = shared(fd, PAGE, 0), *own;

	live[5] = 55;
	own = mapped(fd, PAGE, PROT_READ, MAP_PRIVATE, 0);
	printf("read %u\n", own[5]);
	live[5] = 66;
	printf("read %u\n", own[5]);
	own = mmap(NULL, PAGE, RW, MAP_PRIVATE, fd, 0);
	must(own != MAP_FAILED, "mmap");
	printf("read %u\n", own[5]);
	own[6] = 1;
	live[5] = 77;
	live[6] = 88;
	printf("after it was written: read %u and %u, the BAR has %u\n", own[5], own[6], live[6]);
}

/* A BAR as the buffer of system calls. */
static void buffer(char **arguments)
{
	volatile unsigned *bar = shared(opened(arguments[0]), 2 * PAGE, 0);
	char text[16] = "";
	int ends[2];

	must(!pipe(ends), "pipe");
	bar[0] = 0x44434241;
	bar[PAGE / 4] = 0x48474645;
	TELL(write(ends[1], (void *)bar, 4));
	TELL(write(ends[1], (void *)(bar + PAGE / 4), 4));
	TELL(read(ends[0], text, 8));
	printf("%s\n", text);
	TELL(write(ends[1], "zyxw", 4));
	TELL(read(ends[0], (void *)(bar + 512), 4));
	printf("%#x\n", bar[512]);
}

/* Physical memory that is a device's, or the firmware's, against read(2). */
static void memory(char **arguments)
{
	off_t at = strtoul(arguments[0], NULL, 0);
	size_t length = strtoul(arguments[1], NULL, 0);
	int fd = opened("/dev/mem");
	char *read = malloc(length), *there = mapped(fd, length, PROT_READ, MAP_SHARED, at);

	TELL(pread(fd, read, length, at));
	printf("alike: %d\n", !memcmp(read, there, length));
}

static void hpet(char **arguments)
{
	volatile unsigned *registers;
	int fd = open("/dev/hpet", O_RDONLY);
	unsigned before;

	(void)arguments;
	must(fd >= 0, "open");
	registers = mapped(fd, PAGE, PROT_READ, MAP_SHARED, 0);
	before = registers[0xf0 / 4];
	usleep(10000);
	printf("%#x, the counter moves: %d\n", registers[0], registers[0xf0 / 4] != before);
}

/* A frame buffer that the driver copies to the device now and then, against read(2). */
static void framebuffer(char **arguments)
{
	struct fb_fix_screeninfo fixed;
	static char read[65536];
	int fd = opened(arguments[0]);
	unsigned *pixels;
	off_t at;

	must(!ioctl(fd, FBIOGET_FSCREENINFO, &fixed), "FBIOGET_FSCREENINFO");
	at = fixed.smem_len - sizeof(read); /* further up Linux has a cursor, which blinks */
	pixels = (unsigned *)((char *)shared(fd, fixed.smem_len, 0) + at);
	for (unsigned i = 0; i < sizeof(read) / 4; i++)
		pixels[i] = pattern(i);
	usleep(50000);
	TELL(pread(fd, read, sizeof(read), at));
	printf("%s: alike: %d\n", fixed.id, !memcmp(read, pixels, sizeof(read)));
}

/* A buffer of a graphics driver: write-combining, and let be written page by page. */
static void dumb(char **arguments)
{
	char name[32] = "";
	struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };
	struct drm_mode_create_dumb made = { .width = 256, .height = 256, .bpp = 32 };
	struct drm_mode_map_dumb place = {};
	int fd = opened(arguments[0]);
	unsigned *one, *other, wrong = 0;

	must(!ioctl(fd, DRM_IOCTL_VERSION, &version), "DRM_IOCTL_VERSION");
	must(!ioctl(fd, DRM_IOCTL_MODE_CREATE_DUMB, &made), "DRM_IOCTL_MODE_CREATE_DUMB");
	place.handle = made.handle;
	must(!ioctl(fd, DRM_IOCTL_MODE_MAP_DUMB, &place), "DRM_IOCTL_MODE_MAP_DUMB");
	one = mmap(NULL, made.size, RW, MAP_SHARED, fd, place.offset);
	must(one != MAP_FAILED, "mmap");
	one[0] = 1; /* not read before: the driver lets it be read, and then be written */
	other = shared(fd, made.size, place.offset);
	for (unsigned i = 0; i < made.size / 4; i++)
		one[i] = pattern(i);
	for (unsigned i = 0; i < made.size / 4; i++)
		wrong += other[i] != pattern(i);
	printf("%s: %lu bytes, %u words are wrong\n", name, made.size, wrong);
}

/* Frames that a device fills. */
static void camera(char **arguments)
{
	enum { BUFFERS = 4, FRAMES = 6 };
	struct v4l2_requestbuffers wanted = { .count = BUFFERS, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
					      .memory = V4L2_MEMORY_MMAP };
	int fd = opened(arguments[0]), type = V4L2_BUF_TYPE_VIDEO_CAPTURE, filled = 0;
	unsigned char *at[BUFFERS];

	must(!ioctl(fd, VIDIOC_REQBUFS, &wanted) && wanted.count == BUFFERS, "VIDIOC_REQBUFS");
	for (unsigned i = 0; i < BUFFERS; i++) {
		struct v4l2_buffer buffer = { .index = i, .type = type, .memory = V4L2_MEMORY_MMAP };

		must(!ioctl(fd, VIDIOC_QUERYBUF, &buffer), "VIDIOC_QUERYBUF");
		at[i] = shared(fd, buffer.length, buffer.m.offset);
		memset(at[i], 0xee, buffer.length);
		must(!ioctl(fd, VIDIOC_QBUF, &buffer), "VIDIOC_QBUF");
	}
	must(!ioctl(fd, VIDIOC_STREAMON, &type), "VIDIOC_STREAMON");
	for (int frame = 0; frame < FRAMES; frame++) {
		struct v4l2_buffer buffer = { .type = type, .memory = V4L2_MEMORY_MMAP };
		unsigned left = 0, looked = 0;

		must(!ioctl(fd, VIDIOC_DQBUF, &buffer), "VIDIOC_DQBUF");
		for (; looked * 61 < buffer.bytesused; looked++)
			left += at[buffer.index][looked * 61] == 0xee;
		filled += left < looked / 10;
		memset(at[buffer.index], 0xee, buffer.bytesused);
		must(!ioctl(fd, VIDIOC_QBUF, &buffer), "VIDIOC_QBUF");
	}
	TELL(ioctl(fd, VIDIOC_STREAMOFF, &type));
	printf("%d of %d frames were filled\n", filled, FRAMES);
}

static void mask(struct snd_pcm_hw_params *params, int parameter, unsigned bit)
{
	memset(&params->masks[parameter], 0, sizeof(params->masks[0]));
	params->masks[parameter].bits[bit / 32] = 1u << bit % 32;
}

static void interval(struct snd_pcm_hw_params *params, int parameter, unsigned value)
{
	struct snd_interval *at = &params->intervals[parameter - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL];

	at->min = at->max = value;
	at->integer = 1;
}

/* A sound card: its samples, and the pages in which it and the program say how far they are. */
static void sound(char **arguments)
{
	struct snd_pcm_hw_params params = {};
	struct snd_pcm_mmap_status *status;
	struct snd_pcm_mmap_control *control;
	int fd = opened(arguments[0]);
	unsigned long before;
	char *samples;

	memset(params.masks, 0xff, sizeof(params.masks));
	for (int i = SNDRV_PCM_HW_PARAM_FIRST_INTERVAL; i <= SNDRV_PCM_HW_PARAM_LAST_INTERVAL; i++)
		params.intervals[i - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL].max = ~0u;
	params.rmask = ~0u;
	mask(&params, SNDRV_PCM_HW_PARAM_ACCESS, SNDRV_PCM_ACCESS_MMAP_INTERLEAVED);
	mask(&params, SNDRV_PCM_HW_PARAM_FORMAT, SNDRV_PCM_FORMAT_S16_LE);
	mask(&params, SNDRV_PCM_HW_PARAM_SUBFORMAT, 0);
	interval(&params, SNDRV_PCM_HW_PARAM_CHANNELS, 2);
	interval(&params, SNDRV_PCM_HW_PARAM_RATE, 48000);
	interval(&params, SNDRV_PCM_HW_PARAM_PERIOD_SIZE, 1024);
	interval(&params, SNDRV_PCM_HW_PARAM_PERIODS, 4);
	must(!ioctl(fd, SNDRV_PCM_IOCTL_HW_PARAMS, &params), "SNDRV_PCM_IOCTL_HW_PARAMS");
	samples = shared(fd, 16384, 0);
	status = mapped(fd, PAGE, PROT_READ, MAP_SHARED, SNDRV_PCM_MMAP_OFFSET_STATUS);
	control = shared(fd, PAGE, SNDRV_PCM_MMAP_OFFSET_CONTROL);
	TELL(ioctl(fd, SNDRV_PCM_IOCTL_PREPARE));
	memset(samples, 1, 16384);
	control->appl_ptr = 4096;
	TELL(ioctl(fd, SNDRV_PCM_IOCTL_START));
	before = status->hw_ptr;
	usleep(40000);
	ioctl(fd, SNDRV_PCM_IOCTL_HWSYNC);
	printf("it plays: %d\n", status->hw_ptr > before);
}

/* A ring that the network stack fills. */
static void packets(char **arguments)
{
	enum { FRAME = 2048, FRAMES = 64, SENT = 5, HEADERS = ETH_HLEN + 20 + 8 };
	struct tpacket_req ring = { .tp_block_size = 4 * PAGE, .tp_block_nr = FRAME * FRAMES / (4 * PAGE),
				    .tp_frame_size = FRAME, .tp_frame_nr = FRAMES };
	struct sockaddr_ll here = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
				    .sll_ifindex = if_nametoindex("lo") };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int version = TPACKET_V2, fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), sender = socket(AF_INET, SOCK_DGRAM, 0);
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	int good = 0;
	char *at;

	(void)arguments;
	must(fd >= 0 && sender >= 0, "socket");
	must(!setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)), "PACKET_VERSION");
	must(!setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)), "PACKET_RX_RING");
	must(!bind(fd, (void *)&here, sizeof(here)), "bind");
	at = shared(fd, FRAME * FRAMES, 0);
	for (int i = 0; i < SENT; i++)
		must(sendto(sender, "hello", 6, 0, (void *)&to, sizeof(to)) == 6, "sendto");
	TELL(poll(&ready, 1, 5000));
	usleep(100000);
	for (int i = 0; i < FRAMES; i++) {
		struct tpacket2_hdr *header = (void *)(at + i * FRAME);
		struct sockaddr_ll *from = (void *)((char *)header + TPACKET_ALIGN(sizeof(*header)));

		/* On the loopback each is seen as it goes, and as it comes. */
		if (header->tp_status & TP_STATUS_USER && from->sll_pkttype == PACKET_OUTGOING)
			good += !strcmp((char *)header + header->tp_mac + HEADERS, "hello");
	}
	printf("%d of %d packets are in the ring\n", good, SENT);
}

static void bpf(char **arguments)
{
	union bpf_attr call = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1024,
				.map_flags = BPF_F_MMAPABLE };
	int fd = syscall(SYS_bpf, BPF_MAP_CREATE, &call, sizeof(call));
	unsigned long value = 0;
	unsigned key = 7;
	volatile unsigned long *values;

	(void)arguments;
	must(fd >= 0, "BPF_MAP_CREATE");
	values = shared(fd, 8192, 0);
	values[7] = 77;
	memset(&call, 0, sizeof(call));
	call.map_fd = fd;
	call.key = (unsigned long)&key;
	call.value = (unsigned long)&value;
	TELL(syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &call, sizeof(call)));
	printf("%lu\n", value);
	value = 88;
	TELL(syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &call, sizeof(call)));
	printf("%lu\n", values[7]);
}

/* A buffer for devices made of a memfd. */
static void udmabuf(char **arguments)
{
	struct udmabuf_create wanted = { .size = 16 * PAGE };
	int fd;
	char *file, *buffer;

	wanted.memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING);
	must(!ftruncate(wanted.memfd, wanted.size) && !fcntl(wanted.memfd, F_ADD_SEALS, F_SEAL_SHRINK), "memfd");
	file = shared(wanted.memfd, wanted.size, 0);
	fd = ioctl(opened(arguments[0]), UDMABUF_CREATE, &wanted);
	must(fd >= 0, "UDMABUF_CREATE");
	buffer = shared(fd, wanted.size, 0);
	strcpy(file + PAGE, "by memfd");
	strcpy(buffer + 2 * PAGE, "by udmabuf");
	printf("%s, %s\n", buffer + PAGE, file + 2 * PAGE);
}

static void heap(char **arguments)
{
	struct dma_heap_allocation_data wanted = { .len = 16 * PAGE, .fd_flags = O_RDWR | O_CLOEXEC };
	char *one, *other;

	must(!ioctl(opened(arguments[0]), DMA_HEAP_IOCTL_ALLOC, &wanted), "DMA_HEAP_IOCTL_ALLOC");
	one = shared(wanted.fd, wanted.len, 0);
	other = shared(wanted.fd, wanted.len, 0);
	strcpy(one + PAGE, "by another mapping");
	printf("%s\n", other + PAGE);
}

/* Files that have a meaning of their own for mmap(2), most of them none. */
static void refused(char **arguments)
{
	for (; *arguments; arguments++) {
		int fd = open(*arguments, O_RDONLY);

		printf("%s: %s\n", *arguments, fd < 0 ? strerrorname_np(errno) : "open");
		TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0));
		TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0));
		close(fd);
	}
}

/*
 * Stays mapped: says `there`, and for each line of its input what reading the word and writing it
 * again comes to. With `close` the file is closed before.
 */
static void held(char **arguments)
{
	int fd = opened(arguments[0]);
	volatile unsigned *word = shared(fd, PAGE, 0);
	char line[16];

	if (arguments[1])
		close(fd);
	printf("there\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		printf("%s\n", touch((volatile char *)word, 1));
		fflush(stdout);
	}
}

/* Has memory mapped in several ways, says where, and computes: for tests/vm/cachetypes.py. */
static void types(char **arguments)
{
	for (; arguments[0]; arguments++)
		printf("%s %p\n", arguments[0], shared(opened(arguments[0]), PAGE, 0));
	printf("memory %p\n", mapped(-1, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, 0));
	fflush(stdout);
	for (volatile unsigned long i = 0;; i++)
		;
}

static const struct {
	const char *name;
	void (*body)(char **arguments);
} cases[] = {
	{ "bar", bar }, { "edu", edu }, { "private", private }, { "buffer", buffer }, { "memory", memory },
	{ "hpet", hpet }, { "framebuffer", framebuffer }, { "dumb", dumb }, { "camera", camera },
	{ "sound", sound }, { "packets", packets }, { "bpf", bpf }, { "udmabuf", udmabuf },
	{ "heap", heap }, { "refused", refused }, { "held", held }, { "types", types },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].body(argv + 2);
			return 0;
		}
	fprintf(stderr, "mapped-devices: no such case\n");
	return 1;
}
