// SPDX-License-Identifier: GPL-2.0
/* In which state a file is: a number by which an LWK knows what it has read of it. */
#include "space/service.h"

#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/magic.h>
#include <linux/spinlock.h>
#include <linux/stat.h>
#include <linux/timekeeping.h>

/* A change of a file this long ago has another time than one now, s. */
#define SETTLED 2
#define KNOWN_BITS 10

/*
 * Files that have a number, each in the place that the address of its inode has. A file that comes
 * to another one's place takes it: the other file gets a new number the next time.
 */
static struct known {
	const struct inode *inode;
	u64 changed_ns, size, number;
} known[1 << KNOWN_BITS];

static u64 last_number;
static DEFINE_SPINLOCK(known_lock);

/*
 * The time of the last change, or 0: the file may change without that. A writer sets it, unless it
 * has had the file open for writing before. Not on tmpfs, where stores to a shared mapping leave no
 * time.
 */
static u64 changed_ns(struct file *file, const struct kstat *stat)
{
	struct inode *inode = d_real_inode(file->f_path.dentry);
	struct super_block *sb = inode->i_sb;
	bool tells = sb->s_magic == V9FS_MAGIC || sb->s_type->fs_flags & FS_REQUIRES_DEV;

	if (!tells || sb->s_magic == FUSE_SUPER_MAGIC || !S_ISREG(stat->mode) ||
	    inode_is_open_for_write(inode) || inode_is_open_for_write(file_inode(file)) ||
	    stat->ctime.tv_sec <= 0 || stat->ctime.tv_sec + SETTLED >= ktime_get_real_seconds())
		return 0;
	return stat->ctime.tv_sec * NSEC_PER_SEC + stat->ctime.tv_nsec;
}

/*
 * A number that no file had before in another state, or 0. Time, size and inode number are not
 * enough: two file systems, one mounted after the other, may have them in common (images that are
 * made with fixed times). So a number holds as long as the inode is in memory, of which a flag
 * tells that goes with it.
 */
u64 hanare_file_version(struct file *file, const struct kstat *stat)
{
	struct inode *inode = d_real_inode(file->f_path.dentry);
	struct known *place = &known[hash_ptr(inode, KNOWN_BITS)];
	u64 changed = changed_ns(file, stat), number;
	bool known_here;

	if (!changed)
		return 0;
	spin_lock(&known_lock);
	known_here = test_and_set_bit(HANARE_AS_KNOWN, &inode->i_data.flags);
	/*
	 * Of an overlay that was unmounted there may be pages of a file that was copied up after it
	 * was looked at, by the number of the one below. Another overlay, though it have the same
	 * device, has other inodes.
	 */
	if (file_inode(file) != inode)
		known_here &= test_and_set_bit(HANARE_AS_KNOWN, &file_inode(file)->i_data.flags);
	if (!known_here || place->inode != inode ||
	    place->changed_ns != changed || place->size != stat->size)
		*place = (struct known){ inode, changed, stat->size, ++last_number };
	number = place->number;
	spin_unlock(&known_lock);
	return number;
}
