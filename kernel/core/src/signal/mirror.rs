//! Mirror of a process' dispositions on Linux, and when Linux has to be told of a change.
//!
//! Linux needs the class (default, ignored, forwarded), what becomes of children, and
//! SA_RESTART. Which handler there is, is nothing to it. A signal that goes to and fro
//! between handler and SIG_IGN stays forwarded on Linux until a call is made there: the
//! LWK drops what it ignores.

use super::{
    Actions, DefaultAction, SA_RESTART, SIGCHLD, SIGNAL_MAX, SigAction, SigSet, default_action,
    is_valid, mirror, mirror_flags,
};
use hanare_abi::control::Mirror;

/// glibc's own signals, which are not sent from elsewhere; posix_spawn(3) ignores them in the
/// child.
const INTERNAL: SigSet = SigSet(1 << 31 | 1 << 32);
/// Changes of a signal after which Linux is told of SIG_IGN only when it matters, also where calls
/// are under way.
const OFTEN: u8 = 8;

/// A disposition as Linux has it (`Control::SignalAction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Action of Linux for the signal.
    pub class: Mirror,
    /// SA_RESTART of a handler; SA_NOCLDSTOP and SA_NOCLDWAIT of SIGCHLD.
    pub flags: u64,
}

impl Told {
    const fn wanted(signal: u32, action: &SigAction) -> Self {
        let restart = if action.is_caught() { action.flags & SA_RESTART } else { 0 };
        Self { class: mirror(signal, action), flags: mirror_flags(signal, action) | restart }
    }

    /// After the proxy's part of execve: what was forwarded has its default.
    fn after_exec(self, signal: u32) -> Self {
        if self.class == Mirror::Forward { Self::wanted(signal, &SigAction::DEFAULT) } else { self }
    }
}

/// Dispositions on Linux of signals with their default actions, the same for all programs.
const DEFAULT: [Option<Told>; SIGNAL_MAX as usize] = {
    let mut told = [None; SIGNAL_MAX as usize];
    let mut i = 0;
    while i < told.len() {
        told[i] = Some(Told::wanted(i as u32 + 1, &SigAction::DEFAULT));
        i += 1;
    }
    told
};

/// Dispositions that Linux has been told of, for each signal.
#[derive(Clone, Debug)]
pub struct Mirrored {
    told: [Option<Told>; SIGNAL_MAX as usize],
    changes: [u8; SIGNAL_MAX as usize],
    owed: SigSet,
    /// Whether [`Mirrored::end_on_linux`] was called.
    ends_on_linux: bool,
}

impl Default for Mirrored {
    fn default() -> Self {
        Self {
            told: DEFAULT,
            changes: [0; SIGNAL_MAX as usize],
            owed: SigSet::EMPTY,
            ends_on_linux: false,
        }
    }
}

impl Mirrored {
    /// The mirror of a process that begins with these actions.
    #[must_use]
    pub fn of(actions: &Actions) -> Self {
        let mut mirrored = Self::default();
        for (told, signal) in mirrored.told.iter_mut().zip(1..) {
            let action = actions.get(signal);
            if action != SigAction::DEFAULT {
                *told = Some(Told::wanted(signal, &action));
            }
        }
        mirrored
    }

    /// From now on Linux has the default of signals that end the process by it, without a core
    /// dump, and so ends it itself: also in a wait that no handler interrupts. False: it has
    /// already.
    pub fn end_on_linux(&mut self) -> bool {
        !core::mem::replace(&mut self.ends_on_linux, true)
    }

    const fn wanted(&self, signal: u32, action: &SigAction) -> Told {
        let wanted = Told::wanted(signal, action);
        let ends = matches!(wanted.class, Mirror::Forward)
            && !action.is_caught()
            && matches!(default_action(signal), DefaultAction::Terminate);
        if self.ends_on_linux && ends { Told { class: Mirror::Default, ..wanted } } else { wanted }
    }

    /// The part of `signals` that is not [known](Self::is_known) to Linux.
    #[must_use]
    pub fn unknown(&self, signals: SigSet, actions: &Actions) -> SigSet {
        let unknown = |signal: &u32| {
            signals.contains(*signal) && !self.is_known(*signal, &actions.get(*signal))
        };
        (1..=SIGNAL_MAX).filter(unknown).fold(SigSet::EMPTY, SigSet::with)
    }

    /// Whether Linux has what stands for this action of `signal`, so that
    /// [`changed`](Self::changed) would change nothing.
    #[must_use]
    pub fn is_known(&self, signal: u32, action: &SigAction) -> bool {
        is_valid(signal)
            && !self.owed.contains(signal)
            && self.told[signal as usize - 1] == Some(self.wanted(signal, action))
    }

    /// `signal` has this action now: what Linux has to be told before anything else happens, if
    /// anything. It counts as told. `is_calling`: Linux may be executing a call of another thread,
    /// which a signal that is ignored by now must not interrupt. Otherwise Linux has until the next
    /// call to hear of SIG_IGN, unless the signal is `blocked`: one that Linux keeps back goes by
    /// SIG_IGN, and one that comes afterwards stays.
    pub fn changed(
        &mut self,
        signal: u32,
        action: &SigAction,
        is_calling: bool,
        blocked: SigSet,
    ) -> Option<Told> {
        if !is_valid(signal) {
            return None;
        }
        let i = signal as usize - 1;
        let (told, wanted) = (self.told[i], self.wanted(signal, action));
        self.owed = self.owed.without(signal);
        if told == Some(wanted) {
            return None;
        }
        self.changes[i] = self.changes[i].saturating_add(1);
        let is_urgent = is_calling || blocked.difference(INTERNAL).contains(signal);
        let drops =
            wanted.class == Mirror::Ignore && told.is_some_and(|t| t.class == Mirror::Forward);
        if drops && signal != SIGCHLD && (!is_urgent || self.changes[i] >= OFTEN) {
            self.owed = self.owed.with(signal);
            return None;
        }
        self.told[i] = Some(wanted);
        Some(wanted)
    }

    /// Signals of which Linux has to be told before it executes anything.
    #[must_use]
    pub fn owed(&self) -> SigSet {
        self.owed
    }

    /// Takes what is owed of `signal`, as [`changed`](Self::changed).
    pub fn take_owed(&mut self, signal: u32, action: &SigAction) -> Option<Told> {
        if !self.owed.contains(signal) {
            return None;
        }
        self.owed = self.owed.without(signal);
        let wanted = self.wanted(signal, action);
        let told = &mut self.told[signal as usize - 1];
        (*told != Some(wanted)).then(|| *told.insert(wanted))
    }

    /// Takes all of what is owed that is SIG_IGN and nothing else: these signals can be told
    /// together.
    pub fn take_ignored(&mut self, actions: &Actions) -> SigSet {
        let ignored = Told { class: Mirror::Ignore, flags: 0 };
        let mut taken = SigSet::EMPTY;
        let mut left = self.owed;
        while let Some(signal) = left.first() {
            left = left.without(signal);
            if self.wanted(signal, &actions.get(signal)) == ignored
                && self.take_owed(signal, &actions.get(signal)).is_some()
            {
                taken = taken.with(signal);
            }
        }
        taken
    }

    /// Whether Linux itself makes calls again that `signal` interrupted.
    #[must_use]
    pub fn restarts(&self, signal: u32) -> bool {
        is_valid(signal)
            && self.told[signal as usize - 1]
                .is_some_and(|t| t.class == Mirror::Forward && t.flags & SA_RESTART != 0)
    }

    /// For the child of a fork: what changes all the time, or is owed, may just have been told, or
    /// not, when Linux copied it.
    #[must_use]
    pub fn of_child(&self) -> Self {
        let mut child = self.clone();
        for i in 0..SIGNAL_MAX as usize {
            if child.changes[i] >= OFTEN || child.owed.contains(i as u32 + 1) {
                child.told[i] = None;
                child.owed = child.owed.with(i as u32 + 1);
            }
        }
        child
    }

    /// The proxy has done its part of execve.
    pub fn on_exec(&mut self) {
        for (i, told) in self.told.iter_mut().enumerate() {
            *told = told.map(|t| t.after_exec(i as u32 + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        SA_NOCLDWAIT, SIG_IGN, SIGKILL, SIGQUIT, SIGSEGV, SIGTERM, SIGUSR1, SIGWINCH,
    };
    use super::*;

    const IGNORED: SigAction = SigAction { handler: SIG_IGN, ..SigAction::DEFAULT };

    fn caught(handler: u64, flags: u64) -> SigAction {
        SigAction { handler, flags, ..SigAction::DEFAULT }
    }

    #[test]
    fn what_is_known_is_not_told_and_what_is_owed_is_not_known() {
        let mut m = Mirrored::default();
        assert!(m.is_known(SIGTERM, &caught(100, 0)), "forwarded anyway");
        assert!(!m.is_known(SIGTERM, &IGNORED));
        m.changed(SIGTERM, &IGNORED, true, SigSet::EMPTY);
        assert!(m.is_known(SIGTERM, &IGNORED));
        m.changed(SIGTERM, &caught(100, 0), true, SigSet::EMPTY);
        m.changed(SIGTERM, &IGNORED, false, SigSet::EMPTY);
        assert!(m.owed().contains(SIGTERM) && !m.is_known(SIGTERM, &IGNORED));
        assert!(!m.is_known(SIGTERM, &caught(100, 0)), "`changed` has to take it off what is owed");
        assert!(!m.is_known(0, &IGNORED) && !m.is_known(SIGNAL_MAX + 1, &IGNORED));
        let mut actions = Actions::new();
        actions.set(SIGUSR1, IGNORED).unwrap();
        let unknown = SigSet::of(SIGTERM).with(SIGUSR1);
        assert_eq!(m.unknown(SigSet::ALL, &actions), unknown);
        assert_eq!(m.unknown(SigSet::of(SIGUSR1), &actions), SigSet::of(SIGUSR1));
        assert_eq!(Mirrored::of(&actions).unknown(SigSet::ALL, &actions), SigSet::EMPTY);
    }

    #[test]
    fn handlers_are_nothing_to_linux() {
        let mut m = Mirrored::default();
        // Fatal by default: forwarded anyway.
        assert_eq!(m.changed(SIGTERM, &caught(100, 0), true, SigSet::EMPTY), None);
        assert_eq!(m.changed(SIGTERM, &caught(200, 0), true, SigSet::EMPTY), None);
        assert_eq!(
            m.changed(SIGWINCH, &caught(100, 0), true, SigSet::EMPTY),
            Some(Told { class: Mirror::Forward, flags: 0 })
        );
        assert_eq!(m.changed(SIGWINCH, &caught(200, 0), true, SigSet::EMPTY), None);
        assert_eq!(
            m.changed(SIGWINCH, &SigAction::DEFAULT, true, SigSet::EMPTY),
            Some(Told { class: Mirror::Default, flags: 0 })
        );
        assert_eq!(m.changed(0, &IGNORED, true, SigSet::EMPTY), None);
        assert_eq!(m.changed(65, &IGNORED, true, SigSet::EMPTY), None);
    }

    #[test]
    fn what_ends_the_process_may_be_left_to_linux() {
        let mut m = Mirrored::default();
        let mut actions = Actions::new();
        assert!(m.end_on_linux());
        assert!(!m.end_on_linux());
        let unknown = m.unknown(SigSet::ALL, &actions);
        // Those with a core dump, and those that do not end it, are as ever.
        assert!(unknown.contains(SIGTERM) && unknown.contains(SIGUSR1) && unknown.contains(64));
        for other in [SIGSEGV, SIGQUIT, SIGCHLD, SIGWINCH, SIGKILL] {
            assert!(!unknown.contains(other), "{other}");
        }
        let (default, forward) =
            (Told { class: Mirror::Default, flags: 0 }, Told { class: Mirror::Forward, flags: 0 });
        let told =
            |m: &mut Mirrored, action: &SigAction| m.changed(SIGTERM, action, true, SigSet::EMPTY);
        assert_eq!(told(&mut m, &SigAction::DEFAULT), Some(default));
        assert_eq!(
            m.of_child().changed(SIGTERM, &caught(100, 0), true, SigSet::EMPTY),
            Some(forward)
        );
        actions.set(SIGTERM, caught(100, 0)).unwrap();
        assert_eq!(m.unknown(SigSet::of(SIGTERM), &actions), SigSet::of(SIGTERM));
        assert_eq!(told(&mut m, &caught(100, 0)), Some(forward));
        // The proxy forwards it after an exec, and has to hear that it is Linux' again.
        m.on_exec();
        assert_eq!(m.unknown(SigSet::of(SIGTERM), &Actions::new()), SigSet::of(SIGTERM));
        assert_eq!(told(&mut m, &SigAction::DEFAULT), Some(default));
    }

    #[test]
    fn restart_is_told_both_ways() {
        let mut m = Mirrored::default();
        assert!(!m.restarts(SIGTERM));
        assert_eq!(
            m.changed(SIGTERM, &caught(100, SA_RESTART), true, SigSet::EMPTY),
            Some(Told { class: Mirror::Forward, flags: SA_RESTART })
        );
        assert!(m.restarts(SIGTERM));
        assert_eq!(
            m.changed(SIGTERM, &caught(100, 0), true, SigSet::EMPTY),
            Some(Told { class: Mirror::Forward, flags: 0 })
        );
        assert!(!m.restarts(SIGTERM));
    }

    #[test]
    fn every_change_of_sigchld_is_told() {
        let mut m = Mirrored::default();
        let told = m.changed(
            SIGCHLD,
            &SigAction { flags: SA_NOCLDWAIT, ..SigAction::DEFAULT },
            true,
            SigSet::EMPTY,
        );
        assert_eq!(told, Some(Told { class: Mirror::Default, flags: SA_NOCLDWAIT }));
        for _ in 0..20 {
            assert!(m.changed(SIGCHLD, &caught(100, 0), true, SigSet::EMPTY).is_some());
            assert!(m.changed(SIGCHLD, &IGNORED, true, SigSet::EMPTY).is_some());
        }
    }

    #[test]
    fn a_signal_to_and_fro_stays_forwarded() {
        let mut m = Mirrored::default();
        let told = (0..1000)
            .filter(|_| {
                m.changed(SIGUSR1, &IGNORED, true, SigSet::EMPTY).is_some()
                    | m.changed(SIGUSR1, &caught(100, 0), true, SigSet::EMPTY).is_some()
            })
            .count();
        assert!(told <= usize::from(OFTEN), "{told}");
        assert!(m.owed().is_empty());
        assert_eq!(m.changed(SIGUSR1, &IGNORED, true, SigSet::EMPTY), None);
        assert_eq!(m.owed(), SigSet::of(SIGUSR1));
        let ignored = Told { class: Mirror::Ignore, flags: 0 };
        assert_eq!(m.take_owed(SIGUSR1, &IGNORED), Some(ignored));
        assert_eq!(m.take_owed(SIGUSR1, &IGNORED), None);
        // Linux ignores it now: it must hear of the handler at once.
        assert_eq!(
            m.changed(SIGUSR1, &caught(100, 0), true, SigSet::EMPTY),
            Some(Told { class: Mirror::Forward, flags: 0 })
        );
        let mut child = m.of_child();
        assert_eq!(child.owed(), SigSet::of(SIGUSR1));
        assert!(child.take_owed(SIGUSR1, &caught(100, 0)).is_some());
        assert_eq!(child.take_owed(SIGTERM, &IGNORED), None);
    }

    #[test]
    fn without_a_call_under_way_sig_ign_is_told_with_the_next_one() {
        let mut m = Mirrored::default();
        let mut actions = Actions::new();
        for signal in [SIGTERM, SIGUSR1] {
            actions.set(signal, IGNORED).unwrap();
            assert_eq!(m.changed(signal, &IGNORED, false, SigSet::EMPTY), None);
        }
        assert_eq!(m.owed(), SigSet::of(SIGTERM).with(SIGUSR1));
        let ignored = Told { class: Mirror::Ignore, flags: 0 };
        assert_eq!(m.take_owed(SIGTERM, &IGNORED), Some(ignored));
        assert_eq!(m.take_ignored(&actions), SigSet::of(SIGUSR1));
        assert_eq!((m.owed(), m.take_ignored(&actions)), (SigSet::EMPTY, SigSet::EMPTY));
        // Caught again before Linux heard of it: nothing is to be told.
        let mut m = Mirrored::default();
        m.changed(SIGTERM, &IGNORED, false, SigSet::EMPTY);
        assert_eq!(m.changed(SIGTERM, &caught(100, 0), false, SigSet::EMPTY), None);
        assert!(m.owed().is_empty());
        // A blocked signal may wait on Linux, which SIG_IGN discards.
        assert!(m.changed(SIGTERM, &IGNORED, false, SigSet::of(SIGTERM)).is_some());
        assert_eq!(m.changed(32, &IGNORED, false, SigSet::ALL), None);
        // What becomes of children is told at once.
        assert!(m.changed(SIGCHLD, &IGNORED, false, SigSet::EMPTY).is_some());
        // What the parent owes it is told when it makes its child: the child does not know which is
        // so.
        let mut m = Mirrored::default();
        m.changed(SIGTERM, &IGNORED, false, SigSet::EMPTY);
        let mut child = m.of_child();
        let forwarded = Told { class: Mirror::Forward, flags: 0 };
        assert_eq!(
            child.changed(SIGTERM, &SigAction::DEFAULT, false, SigSet::EMPTY),
            Some(forwarded)
        );
        // What is owed to a child and not ignored is not told as ignored.
        let mut child = m.of_child();
        child.owed = SigSet::of(SIGUSR1);
        assert_eq!(child.take_ignored(&Actions::new()), SigSet::EMPTY);
        assert_eq!(child.owed(), SigSet::of(SIGUSR1));
    }

    #[test]
    fn after_execve_only_ignored_signals_are_told_anew() {
        let mut m = Mirrored::default();
        m.changed(SIGWINCH, &caught(100, 0), true, SigSet::EMPTY);
        m.changed(SIGTERM, &caught(100, SA_RESTART), true, SigSet::EMPTY);
        m.changed(SIGUSR1, &IGNORED, true, SigSet::EMPTY);
        m.on_exec();
        assert_eq!(m.changed(SIGWINCH, &SigAction::DEFAULT, true, SigSet::EMPTY), None);
        assert_eq!(m.changed(SIGTERM, &SigAction::DEFAULT, true, SigSet::EMPTY), None);
        assert_eq!(m.changed(SIGUSR1, &IGNORED, true, SigSet::EMPTY), None);
        assert!(!m.restarts(SIGTERM));
    }
}
