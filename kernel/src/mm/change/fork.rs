//! fork of an address space: private pages are shared until a process writes.

use super::lent::Lent;
use super::reserve::tell_settled;
use super::transaction as change;
use crate::base::chain::{Chain, Run};
use crate::base::quarantine::Of;
use crate::base::{frames, heap, lists};
use crate::mm::map::address_space::AddressSpace;
use crate::mm::map::cursor::Pages;
use crate::mm::map::kept::kept_for;
use crate::mm::map::limits;
use crate::mm::pages::content::FileRef;
use crate::mm::pages::entry::pte_bits;
use crate::mm::pages::entry::{LOST, is_lost, is_owned, pages_of, sight, sight_bits, with_rights};
use crate::mm::pages::quarantine::{self, How};
use crate::mm::window::caller::Caller;
use crate::sched::{cpus, hold, tlb};
use alloc::vec::Vec;
use hanare_abi::layout::{USER_MAX, USER_MIN};
use hanare_core::coherence::{Change, Sight};
use hanare_core::errno::{self, Result};
use hanare_core::pagerange::PageRange;
use hanare_core::vma::{Backing, Prot, Vma, VmaFlags};
use hanare_hal::memory;
use hanare_hal::paging::{LARGE, Leaf, SMALL};
use hanare_hal::pte::{self, Bits};

/// Lent pages of which a child gets a copy at once. That costs less
/// than to have Linux forget them, and then ask for them again for its next answer.
const COPIED_MAX: usize = 32;

/// The memory of a child, as the caller's is now. May wait.
///
/// First Linux forgets what is lent to it, if that is too much to be copied, and says which frames
/// it holds all the same. Then all pages are shared, read-only. Once CPUs have seen that, the child
/// gets its copies of what Linux may still write to. The child sees all writes that come before the
/// copies, to whichever page.
///
/// # Errors
/// `ENOMEM`, of Linux, too, which could not be asked, and where the copies are beyond the limit of
/// the user: the parent is as it was, but for large pages that were split and rights that faults
/// give back.
pub fn fork(p: &Caller<'_>) -> Result<AddressSpace> {
    match Fork::share_with_child(p, COPIED_MAX)?.finish(p) {
        Err(NoRoomForCopies) => {
            // Linux may have let go of what the user has in quarantine since it was asked.
            quarantine::ask(Of::User(p.memory.account.user().uid()), How::Waiting(p.thread));
            Fork::share_with_child(p, 0)?.finish(p).map_err(|_| errno::ENOMEM)
        }
        Ok(child) => Ok(child),
    }
}

/// There was no memory for the child's copies, or it is beyond its user's limit.
struct NoRoomForCopies;

/// A fork under way.
struct Fork {
    child: AddressSpace,
    /// Pages of which the child gets a copy.
    copies: Copies,
    /// The child's user may have so many pages more.
    is_allowed: bool,
}

/// Pages, few as a rule.
struct Copies {
    few: [u64; COPIED_MAX],
    count: usize,
    more: Vec<u64>,
}

impl Copies {
    fn none() -> Copies {
        Copies { few: [0; COPIED_MAX], count: 0, more: Vec::new() }
    }

    /// Adds a page that is to be copied. `ENOMEM`.
    fn add(&mut self, page: u64) -> Result<()> {
        if let Some(place) = self.few.get_mut(self.count) {
            (*place, self.count) = (page, self.count + 1);
            return Ok(());
        }
        heap::more_room(&mut self.more, 1)?;
        lists::push_within(&mut self.more, page);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        (self.count + self.more.len()) as u64 * SMALL
    }

    /// As many at a time as are copied under the lock.
    fn parts(&self) -> impl Iterator<Item = &[u64]> {
        core::iter::once(&self.few[..self.count]).chain(self.more.chunks(COPIED_MAX))
    }
}

impl Fork {
    /// Shares all pages. The caller finishes it: until then no page is copied because of a write
    /// but after all CPUs have flushed all.
    fn share_with_child(p: &Caller<'_>, copies_max: usize) -> Result<Fork> {
        let forked = change::carry_out_with(
            p,
            PageRange::of(USER_MIN, USER_MAX),
            &mut Lent::default(),
            |mm, change, lent| mm.must_forget_for_child(change, copies_max, lent),
            |lent, range| lent.ask(p, range),
            |mm, change, lent| {
                mm.set_wish(p.policy.wish());
                mm.share_with_child(change, lent)
            },
        );
        hold::at("fork-copied");
        forked
    }

    /// Gives the child its copies. Other CPUs know that the pages are read-only.
    fn finish(self, p: &Caller<'_>) -> core::result::Result<AddressSpace, NoRoomForCopies> {
        let Fork { mut child, copies, is_allowed } = self;
        let mut given_up = Chain::default();
        let mut is_flushed = false;
        let copied = copies.parts().all(|pages| {
            cpus::serve_all(); // what is asked of this CPU does not wait for all the copies
            let mut mm = p.memory.mm.lock();
            if !core::mem::replace(&mut is_flushed, true) {
                mm.end_fork();
            }
            let mut copies = |&page| mm.copy_for_child(&mut child, page, &mut given_up);
            is_allowed && !p.is_killed() && pages.iter().all(&mut copies)
        });
        if copies.count > 0 {
            tell_settled(p.memory); // writers of these pages have waited
        }
        while let Some(run) = given_up.pop() {
            quarantine::set_aside(run, Some(&p.memory.account));
        }
        if !copied {
            return Err(NoRoomForCopies);
        }
        child.set_wish(None);
        child.check_resident();
        child.settle_account();
        Ok(child)
    }

    /// Charges the child for all that it has, its copies to come among it, if its user may have
    /// these. What it shares until one of the two writes is not refused: it is there already.
    fn charge(&mut self) {
        let account = self.child.account();
        self.is_allowed = account.is_none_or(|a| a.has_room_for(self.copies.bytes()));
        if self.is_allowed {
            self.child.settle_account();
        }
    }

    /// Gives the child the pages of a mapping of its parent's, of which these are.
    fn share_pages(
        &mut self,
        pages: &mut Pages<'_>,
        v: &Vma<FileRef>,
        may_share: &dyn Fn(&Leaf) -> bool,
        change: &Change,
    ) -> Result<()> {
        let (mut failed, mut shared) = (false, crate::base::mappings::Sharing::default());
        let read_only = pte_bits(v.prot - Prot::WRITE);
        pages.mark(v.range(), &mut |leaf| {
            if is_lost(&leaf) {
                failed |= !self.child.map_inherited(leaf.addr, SMALL, LOST);
                return leaf.entry;
            }
            if failed || !is_owned(leaf.entry) {
                return leaf.entry;
            }
            let seen = change.sight(pages_of(&leaf), sight(leaf.entry));
            let shares = !leaf.entry.has(pte::LENT) || may_share(&leaf);
            // A large one was split.
            if !shares && (leaf.size == LARGE || self.copies.add(leaf.addr).is_err()) {
                failed = true;
                return leaf.entry;
            }
            if !self.child.map_shared(&leaf, read_only) {
                failed = true;
                return leaf.entry;
            }
            if leaf.size == LARGE {
                crate::base::mappings::share_large(leaf.frame());
            } else {
                shared.add(leaf.frame());
            }
            let given_back = if shares { pte::LENT } else { Bits::NONE };
            let lost = pte::WRITE | given_back | sight_bits(Sight::Write);
            leaf.entry & !lost | sight_bits(seen)
        });
        shared.finish();
        if failed { Err(errno::ENOMEM) } else { Ok(()) }
    }
}

impl AddressSpace {
    /// Maps a page of the parent's; false: there is no memory.
    fn map_shared(&mut self, leaf: &Leaf, rights: Bits) -> bool {
        // What can be written may be written just now. What was not accessed here was not by the
        // child, either.
        let written = if leaf.entry.has(pte::WRITE) { pte::DIRTY } else { Bits::NONE };
        let known = leaf.entry.only(pte::DIRTY | pte::SOFT_CLEAN | pte::ACCESSED | pte::USED);
        let entry = (leaf.frame() | rights) & !pte::ACCESSED | known | written;
        self.map_inherited(leaf.addr, leaf.size, entry)
    }

    /// Where Linux has to forget pages before a child shares them: all that are lent to it, if
    /// that is more than `copies_max` pages. `ENOMEM`.
    fn must_forget_for_child(
        &mut self,
        change: &Change,
        copies_max: usize,
        lent: &mut Lent,
    ) -> Result<Option<PageRange>> {
        if self.lent_pages() <= copies_max as u64 {
            return Ok(None);
        }
        lent.gather();
        let (mut pages, mut all, mut needed) = (0, 0, None);
        let mut result = Ok(());
        let (map, _, mut pages_there) = self.view();
        for v in map.iter() {
            let is_shared = is_inherited(v) && shares_pages(v);
            pages_there.each(v.range(), |leaf| {
                if leaf.entry.has(pte::LENT) {
                    all += leaf.size / SMALL;
                    if is_shared {
                        result = result.and_then(|()| lent.add(leaf));
                    }
                    if is_shared && !change.has_forgotten(pages_of(leaf)) {
                        pages += leaf.size / SMALL;
                        needed = Some(tlb::join(needed, pages_of(leaf)));
                    }
                }
            });
        }
        self.set_lent_pages(all);
        result.map(|()| needed.filter(|_| pages > copies_max as u64))
    }

    fn share_with_child(&mut self, change: &Change, lent: &Lent) -> Result<Fork> {
        if !limits::room_for_mappings(self.map_bytes()) {
            return Err(errno::ENOMEM);
        }
        let account = self.account().cloned().ok_or(errno::ENOMEM)?;
        account.may_have_process()?;
        account.may_have(self.map_bytes() + self.table_bytes())?;
        let mut fork = Fork {
            child: AddressSpace::new(account).ok_or(errno::ENOMEM)?,
            copies: Copies::none(),
            is_allowed: true,
        };
        if lent.has_asked() {
            self.split_held(change, lent, |v| is_inherited(v) && shares_pages(v))?;
        }
        let may_share = |leaf: &Leaf| lent.may_share(change, leaf);
        let child = &mut fork.child;
        // A program makes as many mappings as it likes.
        let mut result = child.take_after(self, is_inherited, of_child)?;
        let (map, _, mut pages) = self.view();
        for v in map.iter().filter(|v| is_inherited(v) && shares_pages(v)) {
            result = result.and_then(|()| fork.share_pages(&mut pages, v, &may_share, change));
        }
        self.flush(PageRange::of(0, 1 << 47));
        result?;
        fork.charge();
        self.begin_fork();
        Ok(fork)
    }

    /// Gives a child a frame of its own; the parent, whose memory this is, has the other one to
    /// itself again. False: there is none.
    fn copy_for_child(
        &mut self,
        child: &mut AddressSpace,
        page: u64,
        given_up: &mut Chain,
    ) -> bool {
        let shared = child.leaf(page).map(|leaf| leaf.frame());
        let copied = child.copy_shared(page, given_up);
        let is_alone = |frame| Some(frame) == shared && !frames::is_shared(frame);
        let prot = self.mappings().find(page).map(|v| v.prot);
        if let (Some(prot), Some(leaf)) = (prot, self.leaf(page))
            && copied
            && is_alone(leaf.frame())
        {
            self.refresh(page, prot); // it need not fault
        }
        copied
    }

    /// Gives a child that does not run yet a frame of its own at `page`. False: there is none.
    fn copy_shared(&mut self, page: u64, given_up: &mut Chain) -> bool {
        let Some(leaf) = self.leaf(page) else { return true };
        let Some(new) = self.alloc(page) else { return false };
        memory::copy(new, leaf.frame(), SMALL as usize);
        let prot = self.mappings().find(page).map_or(Prot::empty(), |v| v.prot);
        let entry = new | with_rights(leaf.entry, prot).only(!pte::ADDRESS);
        if !self.replace_small(page, entry) {
            frames::free(new, 0); // cannot be: the table is there
            return false;
        }
        // The parent's mapping, unless another thread has just given it up, which Linux may not
        // have done yet.
        if frames::drop_mapping_told(leaf.frame(), false).is_some() {
            given_up.push(Run::of(leaf.frame(), false).named());
        }
        true
    }
}

/// Whether a child has the mapping, too.
fn is_inherited(v: &Vma<FileRef>) -> bool {
    !v.flags.contains(VmaFlags::DONTFORK) && kept_for(v).is_none()
}

/// A mapping as a child has it.
fn of_child(v: &Vma<FileRef>) -> Vma<FileRef> {
    let mut copy = v.clone();
    copy.flags -= VmaFlags::LOCKED | VmaFlags::LOCK_ON_FAULT; // not inherited
    if let Backing::SharedLinux { watch, .. } = &mut copy.backing {
        *watch = 0; // the child watches its own mapping
    }
    copy
}

/// Whether a child has its pages, until one of the two writes.
fn shares_pages(v: &Vma<FileRef>) -> bool {
    matches!(v.backing, Backing::Anonymous | Backing::PrivateFile { .. })
        && !v.flags.contains(VmaFlags::WIPEONFORK)
        && !is_read_anew(v)
}

/// Whether a child that wants its pages finds them as the parent has, without asking Linux: it may
/// want few.
fn is_read_anew(v: &Vma<FileRef>) -> bool {
    let is_known = || matches!(&v.backing, Backing::PrivateFile { file, .. } if file.is_known());
    v.flags.contains(VmaFlags::UNWRITTEN) && is_known()
}

/// Flags of a new private mapping of a file with these rights.
pub fn unwritten(prot: Prot) -> VmaFlags {
    if prot.contains(Prot::WRITE) { VmaFlags::empty() } else { VmaFlags::UNWRITTEN }
}
