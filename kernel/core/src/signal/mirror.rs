//! What Linux has of a process's dispositions, and when it has to be told.
//!
//! Linux needs the class (default, ignored, forwarded), what becomes of children, and
//! SA_RESTART. Which handler there is, is nothing to it. A signal that goes to and fro
//! between handler and SIG_IGN stays forwarded on Linux until a call is made there: the
//! LWK drops what it ignores.

use super::{
    Actions, SA_RESTART, SIGCHLD, SIGNAL_MAX, SigAction, SigSet, is_valid, mirror, mirror_flags,
};
use hanare_abi::control::Mirror;

/// Changes of a signal after which Linux is told of SIG_IGN only when it matters.
const OFTEN: u8 = 8;

/// A disposition as Linux has it (`Control::SignalAction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it does with the signal.
    pub class: Mirror,
    /// SA_RESTART of a handler; SA_NOCLDSTOP and SA_NOCLDWAIT of SIGCHLD.
    pub flags: u64,
}

impl Told {
    fn wanted(signal: u32, action: &SigAction) -> Self {
        let restart = if action.is_caught() { action.flags & SA_RESTART } else { 0 };
        Self { class: mirror(signal, action), flags: mirror_flags(signal, action) | restart }
    }

    /// After the proxy's part of execve: what was forwarded has its default.
    fn after_exec(self, signal: u32) -> Self {
        if self.class == Mirror::Forward { Self::wanted(signal, &SigAction::DEFAULT) } else { self }
    }
}

/// What Linux has been told of each signal.
#[derive(Clone, Debug)]
pub struct Mirrored {
    told: [Option<Told>; SIGNAL_MAX as usize],
    changes: [u8; SIGNAL_MAX as usize],
    owed: SigSet,
}

impl Default for Mirrored {
    fn default() -> Self {
        Self::of(&Actions::new())
    }
}

impl Mirrored {
    /// Of a process that begins with these actions.
    #[must_use]
    pub fn of(actions: &Actions) -> Self {
        let told =
            core::array::from_fn(|i| Some(Told::wanted(i as u32 + 1, &actions.get(i as u32 + 1))));
        Self { told, changes: [0; SIGNAL_MAX as usize], owed: SigSet::EMPTY }
    }

    /// `signal` has this action now: what Linux has to be told before anything else
    /// happens, if anything. It counts as told.
    pub fn changed(&mut self, signal: u32, action: &SigAction) -> Option<Told> {
        if !is_valid(signal) {
            return None;
        }
        let i = signal as usize - 1;
        let (told, wanted) = (self.told[i], Told::wanted(signal, action));
        self.owed = self.owed.without(signal);
        if told == Some(wanted) {
            return None;
        }
        self.changes[i] = self.changes[i].saturating_add(1);
        let drops =
            wanted.class == Mirror::Ignore && told.is_some_and(|t| t.class == Mirror::Forward);
        if drops && signal != SIGCHLD && self.changes[i] >= OFTEN {
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
        let wanted = Told::wanted(signal, action);
        let told = &mut self.told[signal as usize - 1];
        (*told != Some(wanted)).then(|| *told.insert(wanted))
    }

    /// Whether Linux itself makes calls again that `signal` interrupted.
    #[must_use]
    pub fn restarts(&self, signal: u32) -> bool {
        is_valid(signal)
            && self.told[signal as usize - 1]
                .is_some_and(|t| t.class == Mirror::Forward && t.flags & SA_RESTART != 0)
    }

    /// For the child of a fork: what changes all the time may just have been told, or
    /// not, when Linux copied it.
    #[must_use]
    pub fn of_child(&self) -> Self {
        let mut child = self.clone();
        for i in 0..SIGNAL_MAX as usize {
            if child.changes[i] >= OFTEN {
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
    use super::super::{SA_NOCLDWAIT, SIG_IGN, SIGTERM, SIGUSR1, SIGWINCH};
    use super::*;

    const IGNORED: SigAction = SigAction { handler: SIG_IGN, ..SigAction::DEFAULT };

    fn caught(handler: u64, flags: u64) -> SigAction {
        SigAction { handler, flags, ..SigAction::DEFAULT }
    }

    #[test]
    fn handlers_are_nothing_to_linux() {
        let mut m = Mirrored::default();
        // Fatal by default: forwarded anyway.
        assert_eq!(m.changed(SIGTERM, &caught(100, 0)), None);
        assert_eq!(m.changed(SIGTERM, &caught(200, 0)), None);
        assert_eq!(
            m.changed(SIGWINCH, &caught(100, 0)),
            Some(Told { class: Mirror::Forward, flags: 0 })
        );
        assert_eq!(m.changed(SIGWINCH, &caught(200, 0)), None);
        assert_eq!(
            m.changed(SIGWINCH, &SigAction::DEFAULT),
            Some(Told { class: Mirror::Default, flags: 0 })
        );
        assert_eq!(m.changed(0, &IGNORED), None);
        assert_eq!(m.changed(65, &IGNORED), None);
    }

    #[test]
    fn restart_is_told_both_ways() {
        let mut m = Mirrored::default();
        assert!(!m.restarts(SIGTERM));
        assert_eq!(
            m.changed(SIGTERM, &caught(100, SA_RESTART)),
            Some(Told { class: Mirror::Forward, flags: SA_RESTART })
        );
        assert!(m.restarts(SIGTERM));
        assert_eq!(
            m.changed(SIGTERM, &caught(100, 0)),
            Some(Told { class: Mirror::Forward, flags: 0 })
        );
        assert!(!m.restarts(SIGTERM));
    }

    #[test]
    fn every_change_of_sigchld_is_told() {
        let mut m = Mirrored::default();
        let told = m.changed(SIGCHLD, &SigAction { flags: SA_NOCLDWAIT, ..SigAction::DEFAULT });
        assert_eq!(told, Some(Told { class: Mirror::Default, flags: SA_NOCLDWAIT }));
        for _ in 0..20 {
            assert!(m.changed(SIGCHLD, &caught(100, 0)).is_some());
            assert!(m.changed(SIGCHLD, &IGNORED).is_some());
        }
    }

    #[test]
    fn a_signal_to_and_fro_stays_forwarded() {
        let mut m = Mirrored::default();
        let told = (0..1000)
            .filter(|_| {
                m.changed(SIGUSR1, &IGNORED).is_some()
                    | m.changed(SIGUSR1, &caught(100, 0)).is_some()
            })
            .count();
        assert!(told <= usize::from(OFTEN), "{told}");
        assert!(m.owed().is_empty());
        assert_eq!(m.changed(SIGUSR1, &IGNORED), None);
        assert_eq!(m.owed(), SigSet::of(SIGUSR1));
        let ignored = Told { class: Mirror::Ignore, flags: 0 };
        assert_eq!(m.take_owed(SIGUSR1, &IGNORED), Some(ignored));
        assert_eq!(m.take_owed(SIGUSR1, &IGNORED), None);
        // Linux ignores it now: it must hear of the handler at once.
        assert_eq!(
            m.changed(SIGUSR1, &caught(100, 0)),
            Some(Told { class: Mirror::Forward, flags: 0 })
        );
        let mut child = m.of_child();
        assert_eq!(child.owed(), SigSet::of(SIGUSR1));
        assert!(child.take_owed(SIGUSR1, &caught(100, 0)).is_some());
        assert_eq!(child.take_owed(SIGTERM, &IGNORED), None);
    }

    #[test]
    fn after_execve_only_ignored_signals_are_told_anew() {
        let mut m = Mirrored::default();
        m.changed(SIGWINCH, &caught(100, 0));
        m.changed(SIGTERM, &caught(100, SA_RESTART));
        m.changed(SIGUSR1, &IGNORED);
        m.on_exec();
        assert_eq!(m.changed(SIGWINCH, &SigAction::DEFAULT), None);
        assert_eq!(m.changed(SIGTERM, &SigAction::DEFAULT), None);
        assert_eq!(m.changed(SIGUSR1, &IGNORED), None);
        assert!(!m.restarts(SIGTERM));
    }
}
