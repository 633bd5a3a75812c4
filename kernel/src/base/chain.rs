//! Lists of frames that their owner has given up and that are not free yet. A list is threaded
//! through the metadata of the frames themselves, so it needs no memory, however long: what is
//! on the way back must not have to ask for some.

use crate::base::frames;
use hanare_abi::frame::Extent;
use hanare_hal::addr::PhysAddr;
use hanare_hal::paging::SMALL;

/// Pages of the longest run: one page that Linux holds holds all of its run.
pub const RUN_PAGES: u32 = 512;

/// Single pages one behind the other, or one block of 512.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Address of the first page.
    pub frame: PhysAddr,
    /// Pages.
    pub pages: u32,
    /// The pages are one block.
    pub large: bool,
    /// An answer to a fault that is on its way to Linux may name a page of it.
    pub named: bool,
}

impl Run {
    /// One page, or one block of 512.
    pub fn of(frame: PhysAddr, large: bool) -> Run {
        Run { frame, pages: if large { RUN_PAGES } else { 1 }, large, named: false }
    }

    /// Marks the run as [named](Self::named).
    pub fn named(self) -> Run {
        Run { named: true, ..self }
    }

    /// In eight parts, or as many as it has pages. A block is to be split before.
    pub fn parts(self) -> impl Iterator<Item = Run> {
        let pages = self.pages.div_ceil(8);
        (0..self.pages).step_by(pages as usize).map(move |first| Run {
            frame: self.frame + u64::from(first) * SMALL,
            pages: pages.min(self.pages - first),
            large: false,
            ..self
        })
    }

    /// As a service of the module is told of it.
    pub fn extent(self) -> u64 {
        Extent::of(self.frame.frame(), u64::from(self.pages)).word()
    }

    /// Frees the frames of the run.
    pub fn free(self) {
        if self.large {
            frames::free(self.frame, 9);
        } else {
            frames::free_run(self.frame, self.pages);
        }
    }

    /// Takes `next` into the run if it follows.
    fn join(&mut self, next: Run) -> bool {
        let follows = next.frame == self.frame + u64::from(self.pages) * SMALL;
        let alike = !self.large && !next.large && self.named == next.named;
        let joins = follows && alike && self.pages + next.pages <= RUN_PAGES;
        self.pages += if joins { next.pages } else { 0 };
        joins
    }

    const PAGES_MASK: u64 = 1023;
    const LARGE: u64 = 1024;
    const NAMED: u64 = 2048;

    /// In the note of the run before it. A frame's address has 12 bits to spare.
    fn note(self) -> u64 {
        self.frame.0
            | u64::from(self.pages) & Self::PAGES_MASK
            | if self.large { Self::LARGE } else { 0 }
            | if self.named { Self::NAMED } else { 0 }
    }

    fn of_note(note: u64) -> Run {
        Run {
            frame: PhysAddr(note).page_down(),
            pages: (note & Self::PAGES_MASK) as u32,
            large: note & Self::LARGE != 0,
            named: note & Self::NAMED != 0,
        }
    }
}

/// The note of the last run.
const END: u64 = 0;

/// A list of runs, the last one that came first.
#[derive(Default)]
pub struct Chain {
    first: Option<Run>,
    pages: u64,
}

impl Chain {
    /// The empty list.
    pub const fn new() -> Chain {
        Chain { first: None, pages: 0 }
    }

    /// Whether the chain has no run.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Pages of all runs.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Adds a run, which only the list has from now on.
    pub fn push(&mut self, run: Run) {
        if self.first.as_mut().is_some_and(|first| first.join(run)) {
            self.pages += u64::from(run.pages);
        } else {
            self.push_apart(run);
        }
    }

    /// Adds a run that stays apart from others.
    pub fn push_apart(&mut self, run: Run) {
        self.pages += u64::from(run.pages);
        frames::set_note(run.frame, self.first.map_or(END, Run::note));
        self.first = Some(run);
    }

    /// Takes a run out.
    pub fn pop(&mut self) -> Option<Run> {
        let run = self.first?;
        let next = frames::note(run.frame);
        self.first = (next != END).then(|| Run::of_note(next));
        self.pages -= u64::from(run.pages);
        Some(run)
    }

    /// Takes as many runs out as find room; how many.
    pub fn pop_into(&mut self, to: &mut [Run]) -> usize {
        let mut n = 0;
        while let Some(place) = to.get_mut(n)
            && let Some(run) = self.pop()
        {
            *place = run;
            n += 1;
        }
        n
    }

    /// Frees all runs of the chain.
    pub fn free(mut self) {
        while let Some(run) = self.pop() {
            run.free();
        }
    }
}
