//! The table of the control groups that limit something: which there are, and which is above which.
//! What they limit, and how much of it is in use, is the business of [`crate::groups`] (memory) and
//! [`crate::bandwidth`] (CPU time).
//!
//! Only groups with a limit are here. One is named by its [`Tag`]. A group below other ones than
//! before is another entry, so what is above a tag does not change while the tag is used.

use core::sync::atomic::{AtomicU64, Ordering};

/// Groups that an instance knows at a time.
pub const GROUPS_MAX: usize = 1023;

/// So many of them may be there for the programs of one user, but root: no user uses them up for
/// others.
pub const GROUPS_PER_USER: usize = 64;

/// So many more may be there for groups above all others of the user, which an existing space comes
/// to be in. So a user with as many groups as allowed does not keep a limit away that is set above
/// these.
const ABOVE_HIS: usize = 16;

/// Index of a group, counted from 1.
pub type Tag = u16;

/// The tag of what is charged to no group.
pub const NOBODY: Tag = 0;

/// A resource that a control group limits.
pub trait Limited {
    /// Most that the members of a group may have.
    type Limit: Copy;
    /// The resource when nothing of it is in use.
    const UNUSED: Self;

    /// The entry becomes another group's.
    fn reset(&self);

    /// Takes a limit, as it is now.
    fn set_limit(&self, limit: Self::Limit);

    /// Whether the entry may become another group's once it has no members.
    fn is_unused(&self) -> bool;
}

/// Groups that limit a `T`.
#[derive(Debug)]
pub struct Table<T> {
    entries: [Entry<T>; GROUPS_MAX],
}

/// Alone on its cache line: CPUs that serve different groups do not meet there.
#[derive(Debug)]
#[repr(align(64))]
struct Entry<T> {
    /// Linux' number for the group; 0: not used yet.
    id: AtomicU64,
    /// Tag of the next one above that has a limit.
    above: AtomicU64,
    /// The user for whose program it came to be here.
    user: AtomicU64,
    /// Spaces in the group and below.
    members: AtomicU64,
    of: T,
}

impl<T: Limited> Entry<T> {
    fn above(&self) -> Tag {
        self.above.load(Ordering::Relaxed) as Tag
    }

    /// Whether the entry may be given to another group.
    fn is_free(&self) -> bool {
        self.members.load(Ordering::Acquire) == 0 && self.of.is_unused()
    }
}

impl<T: Limited> Table<T> {
    /// A table without groups.
    #[must_use]
    pub const fn new() -> Self {
        let empty = [const {
            Entry {
                id: AtomicU64::new(0),
                above: AtomicU64::new(0),
                user: AtomicU64::new(0),
                members: AtomicU64::new(0),
                of: T::UNUSED,
            }
        }; GROUPS_MAX];
        Table { entries: empty }
    }

    fn entry(&self, tag: Tag) -> Option<&Entry<T>> {
        self.entries.get(usize::from(tag).checked_sub(1)?)
    }

    /// Linux' number for a group; 0: it is none.
    pub fn id(&self, tag: Tag) -> u64 {
        self.entry(tag).map_or(0, |entry| entry.id.load(Ordering::Relaxed))
    }

    /// The limited resource of a group; `None`: no group has this tag.
    pub fn get(&self, tag: Tag) -> Option<&T> {
        self.entry(tag).map(|entry| &entry.of)
    }

    /// A group and those above it. Each next one is looked up before the one below is given out:
    /// that may become another group's in the caller's hands.
    pub fn chain(&self, tag: Tag) -> impl Iterator<Item = (Tag, &T)> {
        self.entries_from(tag).map(|(tag, entry)| (tag, &entry.of))
    }

    fn entries_from(&self, tag: Tag) -> impl Iterator<Item = (Tag, &Entry<T>)> {
        let mut next = tag;
        core::iter::from_fn(move || {
            let tag = next;
            let entry = self.entry(tag)?;
            next = entry.above();
            Some((tag, entry))
        })
    }

    /// A space of `user` enters the innermost of `groups`: Linux' numbers, and limits, the
    /// innermost first; number 0 is none. They have these limits from now on. One caller at a time.
    /// `None`: there are too many.
    pub fn enter(&self, user: u32, groups: &[(u64, T::Limit)]) -> Option<Tag> {
        self.enter_with(user, groups, 0)
    }

    fn enter_with(&self, user: u32, groups: &[(u64, T::Limit)], more: usize) -> Option<Tag> {
        let mut tag = NOBODY;
        for &(id, limit) in groups.iter().rev().filter(|group| group.0 != 0) {
            let more = if tag == NOBODY { more } else { 0 };
            tag = self.find_or_make(user, id, tag, more)?;
            self.get(tag)?.set_limit(limit);
        }
        for (_, entry) in self.entries_from(tag) {
            entry.members.fetch_add(1, Ordering::Relaxed);
        }
        Some(tag)
    }

    /// As [`enter`](Self::enter), for a space that is in groups already, and has to be in the new
    /// ones as far as there is a place: the innermost ones may be left out. `None`: there is not
    /// even one for the outermost.
    pub fn change(&self, user: u32, groups: &[(u64, T::Limit)]) -> Option<Tag> {
        (0..=groups.len())
            .find_map(|left_out| self.enter_with(user, &groups[left_out..], ABOVE_HIS))
            .filter(|&tag| tag != NOBODY || groups.iter().all(|group| group.0 == 0))
    }

    /// The space that [entered](Self::enter) leaves it again: it charges it no more.
    pub fn leave(&self, tag: Tag) {
        for (_, entry) in self.entries_from(tag) {
            entry.members.fetch_sub(1, Ordering::Release);
        }
    }

    fn find_or_make(&self, user: u32, id: u64, above: Tag, more: usize) -> Option<Tag> {
        let is_it = |e: &Entry<T>| e.id.load(Ordering::Relaxed) == id && e.above() == above;
        let at = self
            .entries
            .iter()
            .position(is_it)
            .or_else(|| self.make(u64::from(user), id, above, more))?;
        Some(at as Tag + 1)
    }

    fn make(&self, user: u64, id: u64, above: Tag, more: usize) -> Option<usize> {
        let his = |e: &&Entry<T>| e.user.load(Ordering::Relaxed) == user && !e.is_free();
        if user != 0 && self.entries.iter().filter(his).count() >= GROUPS_PER_USER + more {
            return None;
        }
        // Not one that this very call has found and not entered yet.
        let is_above =
            |i: usize| self.entries_from(above).any(|(tag, _)| usize::from(tag) == i + 1);
        let at = self.entries.iter().enumerate().position(|(i, e)| e.is_free() && !is_above(i))?;
        let entry = &self.entries[at];
        entry.id.store(id, Ordering::Relaxed);
        entry.user.store(user, Ordering::Relaxed);
        entry.above.store(u64::from(above), Ordering::Relaxed);
        entry.of.reset();
        Some(at)
    }

    /// Whether what is charged to `tag` is charged to `group`, too.
    #[must_use]
    pub fn is_within(&self, tag: Tag, group: Tag) -> bool {
        self.chain(tag).any(|(tag, _)| tag == group)
    }
}

impl<T: Limited> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}
