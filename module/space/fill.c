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

/* A read of which no watcher of the file is told: what a page fault does on Linux. */
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
	struct address_space *cache;		/* what is in it is what the file holds; NULL: not certain */
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
	struct source source = { file->f_mapping, file, inode->i_mapping };

	/* What an overlay opened itself is not to be had; file systems of disks do without. */
	if (inode != file_inode(file) && S_ISREG(inode->i_mode)) {
		source.mapping = sb->s_type->fs_flags & FS_REQUIRES_DEV ? inode->i_mapping : NULL;
		source.file = NULL;
		if (!source.mapping)
			source.cache = NULL;	/* only its read asks the server whether it is true */
	}
	if (sb->s_magic == FUSE_SUPER_MAGIC || IS_DAX(inode) ||
	    (source.mapping && !source.mapping->a_ops->read_folio))
		source.mapping = NULL;
	/* Memory that the kernel itself cannot read (memfd_secret) is never reclaimed, either. */
	if (sb->s_magic == FUSE_SUPER_MAGIC || IS_DAX(inode) || !S_ISREG(inode->i_mode) ||
	    (source.cache && mapping_unevictable(source.cache)))
		source.cache = NULL;
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

/*
 * As much of a folio as there is room for, or of the file, which may have become shorter: behind
 * its end a page that was there is not what it holds.
 */
static u64 copy_folio(struct address_space *mapping, struct folio *folio, char *to, u64 room,
		      loff_t *position)
{
	size_t at = offset_in_folio(folio, *position);
	loff_t size = i_size_read(mapping->host);

	room = *position < size ? min3(room, (u64)(folio_size(folio) - at), (u64)(size - *position)) : 0;
	memcpy(to, (char *)folio_address(folio) + at, room);
	*position += room;
	return room;
}

/* Folios of a page cache that were found together, each with a reference. */
struct found {
	struct address_space *mapping;		/* NULL: none is looked for */
	pgoff_t last;				/* the last page that is wanted */
	struct folio_batch folios;
	unsigned int at;
};

static void drop_found(struct found *found)
{
	unsigned int i;

	for (i = found->at; i < folio_batch_count(&found->folios); i++)
		folio_put(found->folios.folios[i]);
	folio_batch_init(&found->folios);
	found->at = 0;
}

static bool has_page(struct folio *folio, pgoff_t index)
{
	return index - folio->index < folio_nr_pages(folio);
}

/* The folio of a page, if it is in the page cache; pages are asked for in order. */
static struct folio *find_folio(struct found *found, pgoff_t index)
{
	pgoff_t start = index;

	while (found->at < folio_batch_count(&found->folios)) {
		struct folio *folio = found->folios.folios[found->at];

		if (has_page(folio, index))
			return folio;
		folio_put(folio);
		found->at++;
	}
	drop_found(found);
	if (index > found->last ||
	    !filemap_get_folios_contig(found->mapping, &start, found->last, &found->folios))
		return NULL;
	return has_page(found->folios.folios[0], index) ? found->folios.folios[0] : NULL;
}

/* What the page cache has, as a fault of Linux' own maps it: at most a page. 0: it is not there. */
static u64 read_cached(struct found *found, char *to, u64 room, loff_t *position)
{
	pgoff_t index = *position >> PAGE_SHIFT;
	struct folio *folio = found->mapping ? find_folio(found, index) : NULL;

	if (!folio || !folio_test_uptodate(folio) || PageHWPoison(folio_file_page(folio, index)))
		return 0;
	room = min_t(u64, room, PAGE_SIZE - offset_in_page(*position));
	return copy_folio(found->mapping, folio, to, room, position);
}

static ssize_t read_cache(const struct source *source, struct file *file, char *to, u64 room,
			  loff_t *position)
{
	struct address_space *mapping = source->mapping;
	pgoff_t index = *position >> PAGE_SHIFT;
	struct folio *folio;

	if (*position >= i_size_read(mapping->host))
		return 0;
	if (!hanare_is_cached(mapping, index))
		read_ahead(source, file, index, DIV_ROUND_UP(room, PAGE_SIZE));
	/* A task that punches a hole finds no page made of what is about to go. */
	filemap_invalidate_lock_shared(mapping);
	folio = read_mapping_folio(mapping, index, source->file);
	filemap_invalidate_unlock_shared(mapping);
	if (IS_ERR(folio))
		return PTR_ERR(folio);
	room = copy_folio(mapping, folio, to, room, position);
	folio_put(folio);
	return room;
}

long hanare_file_fill(struct file *file, struct hanare_job *job)
{
	struct source source = source_of(file);
	loff_t position = job->args[1];
	u64 wanted = job->args[2], certain = job->args[3], total = 0;
	struct found found = { source.cache, (job->args[1] + wanted - 1) >> PAGE_SHIFT };
	long ret = 0;
	u32 i;

	for (i = 0; i < job->count && total < wanted; i++) {
		char *to = hanare_extent_virt(job, job->extents[i]);
		u64 room = min(extent_pages(job->extents[i]) << PAGE_SHIFT, wanted - total);

		while (room) {
			ret = read_cached(&found, to, room, &position);
			/* What is not there may take its time, so no more of it than is needed. */
			if (!ret && total < certain) {
				u64 some = min(room, certain - total);

				drop_found(&found);
				ret = source.mapping ? read_cache(&source, file, to, some, &position) :
				      hanare_read_quietly(file, to, some, &position);
			}
			if (ret <= 0)
				goto out;
			to += ret;
			room -= ret;
			total += ret;
		}
	}
out:
	drop_found(&found);
	/* Behind an error the file goes on: to take the rest of a page for zeros is wrong. */
	if (ret < 0)
		total &= PAGE_MASK;
	return total ?: ret;
}
