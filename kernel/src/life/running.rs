//! Hooks of a thread for scheduler and link: what a switch, a halt, a wait and a call of Linux'
//! mean for it.

use crate::gate::{debugregs, observe, park, ptrace};
use crate::link::caller::{Delegates, Owner, Port};
use crate::process::thread::Thread;
use crate::process::{cputimers, usertsc};
use crate::sched::task::{Runs, Task};
use crate::signal::dispositions;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use hanare_abi::control::Control;
use hanare_core::link::Call;
use hanare_hal::{paging, percpu};

impl Runs for Thread {
    fn task(&self) -> &Task {
        &self.port.task
    }

    fn enter(&self) {
        self.process.memory().mm.activate();
        usertsc::switch(self.no_tsc.load(Ordering::Relaxed));
        self.rseq.switched();
        self.calls_here();
        debugregs::switch(Some(self));
    }

    fn leave(&self, next: Option<&dyn Runs>) {
        if next.is_none() {
            paging::use_kernel();
            debugregs::switch(None);
        }
        let space = &self.process.space;
        if next.is_none_or(|n| !Arc::ptr_eq(&Thread::of(n.task()).process.space, space)) {
            self.process.memory().mm.left();
        }
    }

    #[inline(always)] // of each call that is woken for
    fn lets_memory_go(&self) -> bool {
        let others = self.process.memory().mm.active().has_others(percpu::index());
        if others {
            paging::use_kernel();
            self.process.memory().mm.left();
        }
        others
    }

    fn takes_memory(&self) {
        self.process.memory().mm.activate();
    }

    fn cpu_timer_ns(&self) -> Option<u64> {
        cputimers::wanted(self)
    }

    fn is_awaited(&self) -> bool {
        Thread::is_awaited(self)
    }

    fn leaves_registers(&self) {
        // Those of one that executes on Linux are there: it comes back to be stopped.
        if !(self.utility.is_out() && self.process.observed.holds()) {
            park::in_kernel(self);
        }
    }

    fn must_end(&self) -> bool {
        Thread::must_end(self)
    }

    fn has_signal(&self) -> bool {
        Thread::has_signal(self)
    }

    fn ids(&self) -> (u32, u32) {
        (Thread::tid(self), self.process.memory().id)
    }
}

impl Delegates for Thread {
    fn port(&self) -> &Port {
        &self.port
    }

    fn owner(&self) -> Owner {
        self.process.memory().owner()
    }

    fn is_killed(&self) -> bool {
        self.process.is_killed()
    }

    fn news(&self) -> Option<(u64, u64)> {
        self.signals.news().map(|mask| (mask, self.robust_list.load(Ordering::Relaxed)))
    }

    fn robust_list(&self) -> u64 {
        self.robust_list.load(Ordering::Relaxed)
    }

    #[inline(always)] // each delegated call asks
    fn tell_owed(&self) {
        if self.process.pool.owes() && !Thread::must_end(self) {
            dispositions::tell_owed(self);
        }
    }

    fn asks(&self, request: &Control) {
        if self.process.observed.is_on() {
            observe::asks(self, false);
            ptrace::asks(self, request);
        }
        self.asked(Some(request));
    }

    #[inline(always)] // each delegated call asks
    fn asks_call(&self, call: &Call) {
        if self.process.observed.is_on() {
            observe::asks(self, true);
            ptrace::asks_call(self, call);
        }
        self.asked(None);
    }

    fn asked(&self, request: Option<&Control>) {
        // Services leave descriptors alone.
        if !matches!(request, Some(Control::Serve { .. })) {
            self.process.memory().last_mapped.forget();
        }
    }
}
