//! The faulting thread, as the page fault code of `mm` asks it.

use crate::base::counts;
use crate::mm::Caller;
use crate::mm::fault::thread::Faulting;
use crate::mm::map::limits::Growth;
use crate::process::thread::Thread;
use crate::process::{Process, limits, oom};

impl Process {
    /// How far the process' mappings may grow.
    pub fn growth(&self) -> Growth {
        let id = self.identity.lock();
        Growth { space: id.as_soft, stack: id.stack_soft }
    }
}

impl Faulting for Thread {
    fn caller(&self) -> Caller<'_> {
        self.caller()
    }

    fn count_fault(&self) {
        counts::count(&self.task().counts.faults);
    }

    fn growth(&self) -> Option<Growth> {
        (!limits::may_differ(self)).then(|| self.process.growth())
    }

    fn look_at_limits(&self) {
        limits::look(self);
    }

    fn wait_for_memory(&self) -> bool {
        oom::wait_for_room(self)
    }
}
