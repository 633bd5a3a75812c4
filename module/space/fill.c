// SPDX-License-Identifier: GPL-2.0
/* What files hold, for the LWK's pages: through Linux' page cache, as a fault of Linux' own. */
#include "space/service.h"

#include <linux/file.h>
#include <linux/magic.h>
#include <linux/pagemap.h>
#include <linux/seq_file.h>
#include <linux/uio.h>

/* As mincore(2): whether the page would be there without reading, now. */
bool hanare_is_cached(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio;
	bool cached;

	rcu_read_lock();
	folio = xa_load(&mapping->i_pages, index);
	cached = folio && !xa_is_value(folio) && folio_test_uptodate(folio);
	rcu_read_unlock();
	return cached;
}

/* A read that nobody is told of who watches the file: what a page fault does on Linux. */
ssize_t hanare_read_quietly(struct file *file, char *to, size_t room, loff_t *position)
{
	struct kvec vec = { .iov_base = to, .iov_len = room };
	struct kiocb iocb;
	struct iov_iter iter;
	ssize_t ret;

	init_sync_kiocb(&iocb, file);
	iocb.ki_pos = *position;
	iov_iter_kvec(&iter, ITER_DEST, &vec, 1, room);
	/* Files of processes have only the operation for user memory, with this behind it. */
	if (file->f_op->read_iter)
		ret = file->f_op->read_iter(&iocb, &iter);
	else if (file->f_op->read == seq_read)
		ret = seq_read_iter(&iocb, &iter);
	else
		ret = -EINVAL;
	*position = iocb.ki_pos;
	return ret;
}

/* A page cache that may be read below a file, and the file that it is read for. */
struct source {
	struct address_space *mapping;		/* NULL: only the file's own read knows what it holds */
	struct file *file;			/* NULL: the mapping is that of a file below an overlay */
};

/*
 * read(2) of XFS, NFS and others takes the inode's lock, which a write(2) to the file holds while
 * it takes its bytes from memory that is filled from here: that of the file itself, perhaps. Not
 * FUSE, whose server may keep nothing in the cache, and takes no lock to read.
 */
static struct source source_of(struct file *file)
{
	struct inode *inode = d_real_inode(file->f_path.dentry);
	struct super_block *sb = inode->i_sb;
	struct source source = { file->f_mapping, file };

	/* What an overlay opened itself is not to be had; file systems of disks do without. */
	if (inode != file_inode(file) && S_ISREG(inode->i_mode)) {
		source.mapping = sb->s_type->fs_flags & FS_REQUIRES_DEV ? inode->i_mapping : NULL;
		source.file = NULL;
	}
	if (sb->s_magic == FUSE_SUPER_MAGIC || IS_DAX(inode) ||
	    (source.mapping && !source.mapping->a_ops->read_folio))
		source.mapping = NULL;
	return source;
}

/*
 * A file is about to be mapped: a file system of a network looks whether its cache is still true,
 * as its mmap would.
 */
int hanare_file_refresh(struct file *file)
{
	struct super_block *sb = file_inode(file)->i_sb;
	loff_t position = 0;
	ssize_t ret;
	char byte;

	if (sb->s_type->fs_flags & FS_REQUIRES_DEV || !S_ISREG(file_inode(file)->i_mode) ||
	    file->f_flags & O_DIRECT || !source_of(file).mapping)
		return 0;
	ret = hanare_read_quietly(file, &byte, 1, &position);
	return min_t(ssize_t, ret, 0);
}

/* Reads ahead what a fill wants, and as much behind as Linux would around a fault. */
static void read_ahead(const struct source *source, const struct file *file, pgoff_t index, u64 pages)
{
	struct file_ra_state state;

	file_ra_state_init(&state, source->mapping);
	if (source->file)
		state.ra_pages = file->f_ra.ra_pages;
	/* As if the page before had been read: not one page of a random access. */
	state.prev_pos = (loff_t)index << PAGE_SHIFT;
	page_cache_sync_readahead(source->mapping, &state, source->file, index, pages);
}

static ssize_t read_cache(const struct source *source, struct file *file, char *to, u64 room,
			  loff_t *position)
{
	struct address_space *mapping = source->mapping;
	pgoff_t index = *position >> PAGE_SHIFT;
	struct folio *folio;
	loff_t size;
	size_t at;

	if (*position >= i_size_read(mapping->host))
		return 0;
	if (!hanare_is_cached(mapping, index))
		read_ahead(source, file, index, DIV_ROUND_UP(room, PAGE_SIZE));
	/* Who punches a hole finds no page made of what is about to go. */
	filemap_invalidate_lock_shared(mapping);
	folio = read_mapping_folio(mapping, index, source->file);
	filemap_invalidate_unlock_shared(mapping);
	if (IS_ERR(folio))
		return PTR_ERR(folio);
	at = offset_in_folio(folio, *position);
	/* Afterwards: behind the end a page that was there is not what the file holds. */
	size = i_size_read(mapping->host);
	room = *position < size ? min3(room, (u64)(folio_size(folio) - at), (u64)(size - *position)) : 0;
	memcpy(to, (char *)folio_address(folio) + at, room);
	folio_put(folio);
	*position += room;
	return room;
}

long hanare_file_fill(struct file *file, struct hanare_job *job)
{
	struct source source = source_of(file);
	loff_t position = job->args[1];
	u64 wanted = job->args[2], total = 0;
	long ret = 0;
	u32 i;

	for (i = 0; i < job->count && total < wanted; i++) {
		char *to = page_address(pfn_to_page(extent_base(job->extents[i]) >> PAGE_SHIFT));
		u64 room = min(extent_pages(job->extents[i]) << PAGE_SHIFT, wanted - total);

		while (room) {
			ret = source.mapping ? read_cache(&source, file, to, room, &position) :
			      hanare_read_quietly(file, to, room, &position);
			if (ret <= 0)
				goto out;
			to += ret;
			room -= ret;
			total += ret;
		}
	}
out:
	/* Behind an error the file goes on: who takes the rest of a page for zeros is wrong. */
	if (ret < 0)
		total &= PAGE_MASK;
	return total ?: ret;
}
