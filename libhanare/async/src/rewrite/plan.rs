//! How each system call instruction is replaced.
//!
//! Two bytes hold a short jump, which reaches a gap between functions, and a long jump fits there:
//! the instruction is replaced exactly. Where no gap is near, the long jump takes the place of an
//! instruction beside it as well, which moves to the stub; no branch may go to what stood in the
//! middle.

use super::failure::Failure;
use super::survey::{BEFORE, SYSCALL, Site, Survey};

/// Size of a jump with a displacement of 32 bits.
pub const JUMP_BYTES: u64 = 5;

/// A replacement.
pub struct Patch {
    /// Bytes that are replaced: `[start, end)`.
    pub start: u64,
    pub end: u64,
    /// The gap that holds the long jump; `None`: it stands at `start`.
    pub gap: Option<u64>,
    /// Instructions that the stub executes before the call.
    pub before: Vec<u8>,
    /// Instructions that the stub executes after the call.
    pub after: Vec<u8>,
    /// Address where the stub goes on.
    pub back: u64,
}

/// A replacement of each instruction.
pub fn of(survey: &Survey, bytes: &[u8]) -> Result<Vec<Patch>, Failure> {
    let mut gaps = Gaps::of(survey);
    let patches: Vec<_> = survey
        .sites
        .iter()
        .map(|site| {
            exact(site, &mut gaps)
                .or_else(|| wide(survey, bytes, site))
                .ok_or(Failure::NoRoom(site.at))
        })
        .collect::<Result<_, _>>()?;
    // Two calls with one instruction between them, which both would move.
    match patches.windows(2).find(|pair| pair[0].end > pair[1].start) {
        Some(pair) => Err(Failure::NoRoom(pair[1].start)),
        None => Ok(patches),
    }
}

/// Room for long jumps, in order of addresses, each used once.
struct Gaps {
    places: Vec<(u64, bool)>,
}

impl Gaps {
    fn of(survey: &Survey) -> Self {
        let mut places = Vec::new();
        for gap in &survey.gaps {
            let mut place = gap.start;
            while place + JUMP_BYTES <= gap.end {
                // A branch into filler would be odd; it is not touched.
                if (place..place + JUMP_BYTES).any(|byte| survey.is_target(byte)) {
                    place += 1;
                    continue;
                }
                places.push((place, false));
                place += JUMP_BYTES;
            }
        }
        Self { places }
    }

    /// One that a short jump reaches, whose end is at `from`.
    fn take_near(&mut self, from: u64) -> Option<u64> {
        let first = self.places.partition_point(|(place, _)| place + 128 < from);
        let near = self.places[first..]
            .iter_mut()
            .take_while(|(place, _)| *place <= from + 127)
            .find(|(_, is_taken)| !*is_taken)?;
        near.1 = true;
        Some(near.0)
    }
}

fn exact(site: &Site, gaps: &mut Gaps) -> Option<Patch> {
    let end = site.at + SYSCALL.len() as u64;
    let gap = gaps.take_near(end)?;
    Some(Patch {
        start: site.at,
        end,
        gap: Some(gap),
        before: Vec::new(),
        after: Vec::new(),
        back: end,
    })
}

/// With what stands before, after, or on both sides.
fn wide(survey: &Survey, bytes: &[u8], site: &Site) -> Option<Patch> {
    let copy = |start: u64, end: u64| {
        bytes[(start - survey.start) as usize..(end - survey.start) as usize].to_vec()
    };
    let end = site.at + SYSCALL.len() as u64;
    let after = site.after.filter(|part| {
        (part.is_movable || part.jump.is_some())
            && !survey.is_target(end)
            && !site.is_among_computed
    });
    let choices = starts(survey, site)
        .into_iter()
        .flatten()
        .flat_map(|start| [(start, None), (start, after)]);
    choices.into_iter().find_map(|(start, after)| {
        let stop = after.map_or(end, |part| part.end);
        if stop - start < JUMP_BYTES {
            return None;
        }
        let jump = after.and_then(|part| part.jump);
        let moved = after.filter(|_| jump.is_none());
        Some(Patch {
            start,
            end: stop,
            gap: None,
            before: copy(start, site.at),
            after: moved.map_or(Vec::new(), |part| copy(part.start, part.end)),
            back: jump.unwrap_or(stop),
        })
    })
}

/// Where a replacement may begin: at the call, or at an instruction before it from which it is
/// reached in any case.
///
/// Computed jumps are not looked for here: the call's number is loaded before it, so that they go
/// there or before.
fn starts(survey: &Survey, site: &Site) -> [Option<u64>; BEFORE + 1] {
    let mut starts = [None; BEFORE + 1];
    starts[0] = Some(site.at);
    let mut first = site.at;
    for (place, part) in site.before.iter().rev().enumerate() {
        match part {
            Some(part) if part.is_movable && part.end == first && !survey.is_target(first) => {
                first = part.start;
                starts[place + 1] = Some(first);
            }
            _ => break,
        }
    }
    starts
}
