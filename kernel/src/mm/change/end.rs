//! The end of a space: all its memory is given back.

use crate::base::chain::Run;
use crate::base::tables::Tables;
use crate::mm::pages::leftovers::Removed;
use crate::mm::pages::quarantine;
use crate::mm::window::messages;
use crate::mm::window::space::{CONTROL_COST, Space};
use hanare_core::coherence::Change;

/// Gives back all memory of a space whose proxy is gone, and pages of the kernel's that the proxy
/// had mapped. Its threads have ended.
pub fn all(p: &Space) {
    // None is run: a task that runs one has the proxy's memory map, and Linux has ended that.
    p.fills.lock().clear();
    let control = p.take_control();
    let control_pages = control.len() as u64;
    let mut removed = Removed::default();
    let mut mm = p.mm.lock();
    mm.check_resident();
    let vmas = mm.take_mappings();
    let whole = vmas.whole();
    mm.unmap_pages(whole, &Change::of_forgotten(whole), true, &mut removed);
    drop(mm);
    drop(vmas);
    p.last_mapped.clear();
    p.mm.take_table().free(&mut Tables::kernel());
    control.into_values().for_each(|frame| removed.seen.push(Run::of(frame, false)));
    messages::take_all(p, &mut removed.seen);
    quarantine::give_up(p.owner(), &p.account, removed.seen, removed.passing);
    p.account.remove_kernel(control_pages * CONTROL_COST);
}
